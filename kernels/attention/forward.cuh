// The forward kernel: O = softmax(scale Q K^T + mask) V and its LSE. docs/KERNEL.md walks through it.
//
// One block: a producer warpgroup, of which one warp issues TMA loads, and one to three consumer warpgroups of 64 query rows each, which
// multiply with WGMMA and compute the softmax. K and V blocks pass through two rings, from the last visible block to the first.
#pragma once
#include "attention/budget.hpp"
#include "attention/epilogue.cuh"
#include "attention/exact_rows.cuh"
#include "attention/mask.cuh"
#include "attention/params.hpp"
#include "attention/scheduler.cuh"
#include "attention/seqlens.cuh"
#include "attention/sequence.cuh"
#include "attention/softmax.cuh"
#include "attention/spec.hpp"
#include "attention/storage.cuh"
#include "attention/timeline.cuh"
#include "ptx/cluster.cuh"
#include "ptx/fence.cuh"
#include "ptx/ldst.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/setmaxnreg.cuh"
#include "ptx/tma.cuh"
#include "ptx/warp.cuh"
#include "ptx/wgmma.cuh"
#include "tile/swizzle.cuh"

namespace tandem::attention {

// ---------------------------------------------------------------------------------------------------------------------------- producer

template <ForwardSpec kSpec>
class Producer {
 public:
  using Storage = ForwardStorage<kSpec>;

  TANDEM_DEVICE Producer(Storage& shared, const ForwardParams& params) : s_(shared), params_(params), scheduler_(params), timeline_(params, 0) {}

  TANDEM_DEVICE void run() {
    while (!scheduler_.done()) {
      const TileInfo tile = scheduler_.current();
      timeline_.mark(TimelineEvent::tile_begin);
      announce(tile);
      const int kv_head = divide(tile.head, params_.kv_group);
      const int first_block = Seqlens<kSpec>(params_, tile).first_block(tile.m_block);
      const SequenceRows keys = loaded_key_rows<kSpec>(params_, tile, first_block);
      load_k(tile.end_block - 1, kv_head, keys);
      load_q(tile);
      // K one block ahead of V: the consumers ask in this order.
#pragma unroll 1
      for (int n_block = tile.end_block - 2; n_block >= first_block; --n_block) {
        load_k(n_block, kv_head, keys);
        load_v(n_block + 1, kv_head, keys);
      }
      // As late as hides the answer's way behind the last load: a tile that is taken early waits here while others stand idle.
      scheduler_.request_next();
      load_v(first_block, kv_head, keys);
      scheduler_.advance();
    }
    TileInfo none{};
    none.end_block = kNoTile;
    announce(none);
  }

 private:
  TANDEM_DEVICE void announce(const TileInfo& tile) {
    s_.tile_ring.acquire(tile_at_);
    if (ptx::elect_one()) {
      s_.tiles[tile_at_.stage] = tile;
      ptx::mbarrier_arrive(s_.tile_ring.full[tile_at_.stage]);
    }
    tile_at_.advance();
  }

  TANDEM_DEVICE void load_q(const TileInfo& tile) {
    s_.q_ring.acquire(q_at_);
    if (ptx::elect_one()) {
      s_.q_ring.expect(q_at_, kSpec.block_m() * params_.q_columns * 2);
#pragma unroll
      for (int chunk = 0; chunk < tile::chunks_of(kSpec.head_dim); ++chunk)
        load_rows<kSpec>(s_.q[q_at_.stage] + chunk * tile::chunk_bytes(kSpec.block_m()), params_.q_maps.of(chunk, kSpec.head_dim, params_.q_columns),
                         s_.q_ring.full[q_at_.stage], chunk * tile::kChunkColumns, query_rows<kSpec>(params_, tile), tile.m_block * kSpec.block_m(), tile.head,
                         ptx::CacheHint::evict_first);
    }
    q_at_.advance();
  }

  TANDEM_DEVICE void load_k(int n_block, int kv_head, const SequenceRows& keys) {
    load_block<kSpec.head_dim>(s_.k_ring, k_at_, s_.k[k_at_.stage], params_.k_maps, params_.k_columns, n_block, kv_head, keys);
  }

  TANDEM_DEVICE void load_v(int n_block, int kv_head, const SequenceRows& keys) {
    load_block<kSpec.head_dim_v>(s_.v_ring, v_at_, s_.v[v_at_.stage], params_.v_maps, params_.v_columns, n_block, kv_head, keys);
  }

  // `columns`: that the load brings of each row.
  template <int kColumns>
  TANDEM_DEVICE void load_block(tile::Ring<kSpec.stages>& ring, tile::RingPosition<kSpec.stages>& at, unsigned char* destination, const ChunkMaps& maps,
                                int columns, int n_block, int kv_head, const SequenceRows& keys) {
    constexpr int kChunkBytes = tile::chunk_bytes(kSpec.block_n);
    ring.acquire(at);
    timeline_.mark(TimelineEvent::load_acquired);
    if (ptx::elect_one()) {
      ring.expect(at, kSpec.block_n * columns * 2);
      const int row = n_block * kSpec.block_n;
#pragma unroll
      for (int chunk = 0; chunk < tile::chunks_of(kColumns); ++chunk) {
        const TensorMap& map = maps.of(chunk, kColumns, columns);
        if constexpr (kSpec.cluster == 1)
          load_rows<kSpec>(destination + chunk * kChunkBytes, map, ring.full[at.stage], chunk * tile::kChunkColumns, keys, row, kv_head,
                           ptx::CacheHint::evict_last);
        else if (chunk % kSpec.cluster == ptx::cluster_cta_rank())  // each block of the cluster loads its chunks for both
          ptx::tma_load_4d_multicast(destination + chunk * kChunkBytes, map, ring.full[at.stage], chunk * tile::kChunkColumns, row, kv_head, keys.batch,
                                     ptx::CacheHint::evict_last, (1 << kSpec.cluster) - 1);
      }
    }
    timeline_.mark(TimelineEvent::load_issued);
    at.advance();
  }

  Storage& s_;
  const ForwardParams& params_;
  TileScheduler<kSpec> scheduler_;
  Timeline<kSpec.timeline> timeline_;
  tile::RingPosition<kSpec.q_buffers> q_at_;
  tile::RingPosition<kSpec.stages> k_at_, v_at_;
  tile::RingPosition<kTileSlots> tile_at_;
};

// ---------------------------------------------------------------------------------------------------------------------------- consumer

template <ForwardSpec kSpec>
class Consumer {
 public:
  using Storage = ForwardStorage<kSpec>;
  static constexpr int kBlockN = kSpec.block_n;
  static constexpr int kQkSteps = kSpec.head_dim / 16;
  static constexpr int kPvSteps = kBlockN / 16;

  TANDEM_DEVICE Consumer(Storage& shared, const ForwardParams& params, int warpgroup)
      : s_(shared),
        params_(params),
        warpgroup_(warpgroup),
        softmax_(params),
        epilogue_(params),
        timeline_(params, warpgroup + 1),
        k_descriptor_(tile::descriptor_k_major(shared.k[0])),
        v_descriptor_(tile::descriptor_n_major<kBlockN>(shared.v[0])) {
    k_descriptor_.low += ptx::lane_index();  // see uniform()
  }

  TANDEM_DEVICE void run() {
    if (kSpec.turns != Turns::none && warpgroup_ == 0) give_turn_to(0);  // the first turn
    while (true) {
      const TileInfo tile = next_tile();
      if (tile.end_block == kNoTile) break;
      timeline_.mark(TimelineEvent::tile_begin);
      const QPosition q = begin_tile();
      take_turn<Turns::gemm_issue>();
      issue_qk();  // in flight: QK of the last block
      pass_turn<Turns::gemm_issue>();
      steps(tile);  // nothing in flight; P of block 0 in registers
      take_turn<Turns::gemm_issue>();
      issue_pv();  // in flight: PV of block 0
      pass_turn<Turns::gemm_issue>();
      softmax_.complete();
      settle_pv();  // nothing in flight
      if constexpr (kSpec.ragged) {
        finish_tile(s_.tiles[tile_at_.stage], q);  // read again: nine registers less in the loop
        release_tile();
      } else {
        finish_tile(tile, q);
      }
    }
    epilogue_.wait_buffer_free();  // shared memory must outlive the stores that read it
    if (kSpec.turns != Turns::none && warpgroup_ == 0) ptx::named_barrier_sync(turn_barrier(0), kTurnThreads);  // the last turn
  }

 private:
  // Q's descriptor lives as long as its tile. Of causal tiles, which have two loops, ptxas keeps it in an ordinary register, and each WGMMA of QK gets an R2UR.
  // Made uniform anew in each step, by a shuffle, head dims 88 and 112 gain 3 to 6 % in three warpgroups; other tiles gain nothing or lose. Windows: not timed.
  static constexpr bool kUniformInStep = kSpec.causal && kSpec.consumer_warpgroups == 3 && !kSpec.q_in_registers;
  static constexpr bool kOutputInQ = kSpec.output_stage == OutputStage::q_buffer;
  static constexpr int kTurnThreads = 256;  // the warpgroup that takes a turn and the one that gives it
  using QPosition = tile::RingPosition<kSpec.q_buffers>;

  // First row of this warp.
  TANDEM_DEVICE static int row_in_tile() { return (ptx::thread_index() - 128) / 32 * 16; }

  // ---- a tile

  TANDEM_DEVICE TileInfo next_tile() {
    s_.tile_ring.wait(tile_at_);
    TileInfo tile = s_.tiles[tile_at_.stage];
    tile.m_block = ptx::warp_uniform(tile.m_block);
    tile.end_block = ptx::warp_uniform(tile.end_block);
    if constexpr (kSpec.ragged) {
      tile.seqlen_q = ptx::warp_uniform(tile.seqlen_q);
      tile.seqlen_k = ptx::warp_uniform(tile.seqlen_k);
    }
    if constexpr (!kSpec.ragged) release_tile();
    return tile;
  }

  TANDEM_DEVICE void release_tile() {
    ptx::mbarrier_arrive(s_.tile_ring.empty[tile_at_.stage]);  // every thread for itself: each has read
    tile_at_.advance();
  }

  // Q of the tile is there; with Q in registers it is taken, and its buffer given back unless O will pass through it.
  TANDEM_DEVICE QPosition begin_tile() {
    const QPosition q = q_at_;
    q_stage_ = q.stage;
    if constexpr (!kSpec.q_in_registers) {
      q_descriptor_ = tile::descriptor_k_major(s_.q[q.stage] + warpgroup_ * 64 * tile::kRowBytes);
      if constexpr (kUniformInStep)
        q_descriptor_.low += ptx::lane_index();
      else
        q_descriptor_ = uniform(q_descriptor_);
    }
    s_.q_ring.wait(q);
    if constexpr (kSpec.q_in_registers) {
      const int lane = ptx::lane_index(), row = row_in_tile() + lane % 16;
#pragma unroll
      for (int k = 0; k < kQkSteps; ++k)
        ptx::ldmatrix_x4(r_q_[k],
                         ptx::shared_address(s_.q[q.stage]) + (k / 4) * tile::chunk_bytes(kSpec.block_m()) + tile::swizzled_offset(row, k % 4 * 2 + lane / 16));
      ptx::warp_sync();  // all lanes have read
      if constexpr (!kOutputInQ) s_.q_ring.template release<1>(q);
    }
    q_at_.advance();
    return q;
  }

  // A block of keys that every row of the warpgroup sees whole, or one that the mask cuts.
  enum class Block { whole, cut };
  template <Block kBlock>
  static constexpr bool kBySum = (kBlock == Block::whole) && kSpec.lazy_rescale;

  // All blocks of a tile, whose first QK is in flight.
  TANDEM_DEVICE void steps(const TileInfo& tile) {
    const int tile_row = tile.m_block * kSpec.block_m();
    const Seqlens<kSpec> seqlens(params_, tile);
    const int first_block = seqlens.first_block(tile.m_block);
    // Blocks [first_whole, end_whole) are seen whole.
    const int first_whole = ptx::warp_uniform(seqlens.first_whole(tile_row + warpgroup_ * 64));
    const int end_whole = ptx::warp_uniform(seqlens.end_whole(tile_row + warpgroup_ * 64));
    softmax_.reset();
    accumulate_ = false;
    int n_block = tile.end_block - 1;
    {
      const Mask<kSpec> mask = mask_of(seqlens, tile_row);
      ptx::wgmma_wait_group<0>();  // nothing in flight
      ptx::wgmma_settle(r_s_);
      release_k();
      if constexpr (kSpec.softcap) softmax_.cap(r_s_);
      if (n_block >= end_whole || n_block < first_whole) mask.apply_right(r_s_, n_block);
      softmax<Block::cut>([] {});
      softmax_.no_correction();
      --n_block;

      if constexpr (kSpec.causal || kSpec.local) {
        const int end_of_cut = end_whole > first_block ? end_whole : first_block;
#pragma unroll 1
        for (; n_block >= end_of_cut; --n_block) step<Block::cut>([&] { mask.apply_right(r_s_, n_block); });
      }
    }
    if (n_block >= first_whole) softmax_.begin_sums();
#pragma unroll 1
    for (; n_block >= first_whole; --n_block) step<Block::whole>([] {});
    if constexpr (kSpec.local) {
      const Mask<kSpec> mask = mask_of(seqlens, tile_row);  // anew: four registers less in the loop above
#pragma unroll 1
      for (; n_block >= first_block; --n_block) step<Block::cut>([&] { mask.apply_left(r_s_, n_block); });
    }

    if constexpr (!kSpec.q_in_registers && !kOutputInQ) s_.q_ring.template release<1>(QPosition{q_stage_, 0});
    softmax_.rescale(r_o_);
  }

  TANDEM_DEVICE static Mask<kSpec> mask_of(const Seqlens<kSpec>& seqlens, int tile_row) {
    const int lane = ptx::lane_index();
    return Mask<kSpec>(seqlens, tile_row + row_in_tile() + lane / 4, lane);
  }

  // A block of keys: S = Q K^T, P = softmax(S); O += P V of the block before, whose P is in registers.
  template <Block kBlock, class ApplyMask>
  TANDEM_DEVICE void step(ApplyMask&& apply_mask) {
    if constexpr (!kSpec.overlap) softmax_.rescale(r_o_);
    take_turn<Turns::gemm_issue>();
    if constexpr (kSpec.overlap) {
      issue_qk();  // in flight: QK
      softmax_.rescale(r_o_);
      issue_pv();  // in flight: QK, PV of the block before
      pass_turn<Turns::gemm_issue>();
      ptx::wgmma_wait_group<1>();  // in flight: PV
    } else {
      issue_pv();  // in flight: PV of the block before
      issue_qk();  // in flight: PV of the block before, QK
      pass_turn<Turns::gemm_issue>();
      settle_pv();  // nothing in flight
    }
    ptx::wgmma_settle(r_s_);
    release_k();
    if constexpr (kSpec.softcap && !kBySum<kBlock>) softmax_.cap(r_s_);
    apply_mask();
    softmax<kBlock>([this] {
      if constexpr (kSpec.overlap) settle_pv();  // nothing in flight
    });
  }

  // O of the tile is complete.
  TANDEM_DEVICE void finish_tile(const TileInfo& tile, QPosition q) {
    if constexpr (kOutputInQ) {
      if constexpr (!kSpec.q_in_registers) ptx::named_barrier_sync(static_cast<int>(NamedBarrier::query_rows_free) + warpgroup_, 128);
      store(tile, s_.q[q.stage]);
      epilogue_.wait_buffer_free();
      s_.q_ring.template release<1>(q);
    } else {
      epilogue_.wait_buffer_free();
      store(tile, s_.o);
    }
  }

  TANDEM_DEVICE void store(const TileInfo& tile, unsigned char* buffer) {
    if (softmax_.out_of_range())
      ExactRows<kSpec>(params_, tile).compute(tile.m_block * kSpec.block_m() + row_in_tile());
    else
      epilogue_.store(tile, row_in_tile(), r_o_, softmax_, buffer);
    timeline_.mark(TimelineEvent::store_issued);
  }

  // ---- softmax

  template <Block kBlock, class Drain>
  TANDEM_DEVICE void softmax(Drain&& drain) {
    take_turn<Turns::exp_section>();
    if constexpr (kBySum<kBlock>)
      softmax_.by_sum(r_s_, r_p_, drain);
    else
      softmax_.by_maximum(r_s_, r_p_, drain);
    timeline_.mark(TimelineEvent::softmax_done);
    pass_turn<Turns::exp_section>();
  }

  // Waits for PV, which a softmax has run beside. Nothing in flight after it.
  TANDEM_DEVICE void settle_pv() {
    ptx::wgmma_wait_group<0>();
    ptx::wgmma_settle(r_o_);
    release_v();
  }

  // ---- GEMMs

  TANDEM_DEVICE void issue_qk() {
    const ptx::SmemDescriptor k_stage = uniform(k_descriptor_.advanced(k_at_.stage * Storage::kKBytes));
    const ptx::SmemDescriptor q_tile = kUniformInStep ? uniform(q_descriptor_) : q_descriptor_;
    s_.k_ring.wait(k_at_);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < kQkSteps; ++k) {
      const ptx::SmemDescriptor k_operand = tile::narrowed_k_step<kBlockN, kSpec.head_dim>(k_stage, k);
      if constexpr (kSpec.q_in_registers)
        ptx::wgmma_rs<kSpec.dtype, kBlockN, ptx::Major::k>(r_s_, r_q_[k], k_operand, k > 0);
      else
        ptx::wgmma_ss<kSpec.dtype, kBlockN, ptx::Major::k>(r_s_, q_tile.advanced(tile::k_step_bytes<kSpec.block_m()>(k)), k_operand, k > 0);
    }
    ptx::wgmma_commit_group();
    timeline_.mark(TimelineEvent::qk_issued);
  }

  TANDEM_DEVICE void issue_pv() {
    const ptx::SmemDescriptor v_stage = uniform(v_descriptor_.advanced(v_at_.stage * Storage::kVBytes));
    s_.v_ring.wait(v_at_);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < kPvSteps; ++k)
      ptx::wgmma_rs<kSpec.dtype, kSpec.head_dim_v, ptx::Major::mn>(r_o_, r_p_[k], v_stage.advanced(tile::n_major_k_step_bytes(k)), accumulate_ || k > 0);
    ptx::wgmma_commit_group();
    accumulate_ = true;
    timeline_.mark(TimelineEvent::pv_issued);
  }

  // That of lane 0, in a uniform register. Without it each descriptor passes through R2UR on its way to the tensor core; and where the lanes
  // agree anyway, and ptxas can tell, it drops the shuffle and is back at R2UR: so K's differ on purpose, and Q's
  // with kUniformInStep.
  TANDEM_DEVICE static ptx::SmemDescriptor uniform(ptx::SmemDescriptor descriptor) { return {ptx::warp_uniform(descriptor.low), descriptor.high}; }

  // S has landed: this warp no longer reads K.
  TANDEM_DEVICE void release_k() {
    timeline_.mark(TimelineEvent::qk_done);
    s_.k_ring.template release<kSpec.cluster>(k_at_);
    k_at_.advance();
  }

  // O has landed: this warp no longer reads V.
  TANDEM_DEVICE void release_v() {
    timeline_.mark(TimelineEvent::pv_done);
    s_.v_ring.template release<kSpec.cluster>(v_at_);
    v_at_.advance();
  }

  // ---- turns: a token that goes round the consumer warpgroups, a named barrier each

  TANDEM_DEVICE static int turn_barrier(int warpgroup) { return static_cast<int>(NamedBarrier::turn) + warpgroup; }

  TANDEM_DEVICE static void give_turn_to(int warpgroup) { ptx::named_barrier_arrive(turn_barrier(warpgroup), kTurnThreads); }

  template <Turns kKind>
  TANDEM_DEVICE void take_turn() const {
    if constexpr (kSpec.turns == kKind) ptx::named_barrier_sync(turn_barrier(warpgroup_), kTurnThreads);
  }

  template <Turns kKind>
  TANDEM_DEVICE void pass_turn() const {
    if constexpr (kSpec.turns == kKind) give_turn_to(warpgroup_ + 1 == kSpec.consumer_warpgroups ? 0 : warpgroup_ + 1);
  }

  Storage& s_;
  const ForwardParams& params_;
  int warpgroup_;
  Softmax<kSpec> softmax_;
  Epilogue<kSpec> epilogue_;
  Timeline<kSpec.timeline> timeline_;
  ptx::SmemDescriptor k_descriptor_, v_descriptor_;  // of stage 0; K's in lane 0
  tile::RingPosition<kSpec.q_buffers> q_at_;
  tile::RingPosition<kSpec.stages> k_at_, v_at_;
  tile::RingPosition<kTileSlots> tile_at_;
  int q_stage_ = 0;                     // where the Q of the current tile lies
  ptx::SmemDescriptor q_descriptor_{};  // of it; with kUniformInStep in lane 0
  bool accumulate_ = false;             // false until the first PV of a tile, which starts O at zero

  float r_s_[kBlockN / 2];                           // S, then exps
  float r_o_[kSpec.head_dim_v / 2];                  // O
  u32 r_p_[kPvSteps][4];                             // P, the A operand of PV
  u32 r_q_[kSpec.q_in_registers ? kQkSteps : 1][4];  // Q, the A operand of QK
};

// ------------------------------------------------------------------------------------------------------------------------------- kernel

template <ForwardSpec kSpec>
TANDEM_DEVICE void forward(const ForwardParams& params) {
  constexpr budget::RegisterSplit kRegisters = budget::register_split(kSpec);
  static_assert(budget::broken_rule(kSpec) == nullptr);
  static_assert(sizeof(ForwardStorage<kSpec>) == budget::shared_ledger(kSpec).total());

  auto& shared = ptx::shared_storage<ForwardStorage<kSpec>>();
  const int warpgroup = ptx::warp_uniform(ptx::thread_index() / 128);
  if (ptx::thread_index() == 0) {
    shared.init_barriers();
    ptx::fence_mbarrier_init();
  }
  shared.zero_beyond(params);
  if constexpr (kSpec.cluster > 1)
    ptx::cluster_sync();
  else
    ptx::block_sync();

  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<kRegisters.producer>();
    if (ptx::warp_uniform(ptx::thread_index() / 32) == 0) Producer<kSpec>(shared, params).run();
  } else {
    ptx::setmaxnreg_inc<kRegisters.consumer>();
    Consumer<kSpec>(shared, params, warpgroup - 1).run();
  }
  if constexpr (kSpec.cluster > 1) ptx::cluster_sync();  // the other block may still load into this one's shared memory
}

}  // namespace tandem::attention
