// Every primitive of the vocabulary on known inputs, with raw results. The same text runs on the device and in the model.
// A block of 128 threads: one warpgroup.
#pragma once
#include "model/primitives/primitives.hpp"
#include "ptx/cluster.cuh"
#include "ptx/cvt.cuh"
#include "ptx/fence.cuh"
#include "ptx/ldst.cuh"
#include "ptx/math.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/tma.cuh"
#include "ptx/warp.cuh"
#include "ptx/wgmma.cuh"
#include "tile/swizzle.cuh"

namespace tandem::primitives {

struct alignas(1024) WgmmaStorage {
  unsigned char a[kM * 128];
  unsigned char b_k[kMaxN * 128];
  unsigned char b_n[kMaxN / 64][kK * 128];
  unsigned char b_16[kMaxN * kNarrow * 2];
  unsigned char b_32[kMaxN * kHalf * 2];
  ptx::Barrier full;
};

struct alignas(1024) MoveStorage {
  unsigned char box[kBoxRows * 128];
  ptx::Barrier full;
};

template <class Storage>
TANDEM_DEVICE void start(Storage& s) {
  if (ptx::thread_index() == 0) {
    ptx::mbarrier_init(s.full, 1);
    ptx::fence_mbarrier_init();
  }
  ptx::block_sync();
}

TANDEM_DEVICE u32 bits(float x) { return __builtin_bit_cast(u32, x); }
TANDEM_DEVICE float number(u32 x) { return __builtin_bit_cast(float, x); }

// ------------------------------------------------------------------------------------------------------------------------------- WGMMA

// Columns 16 k .. 16 k + 15 of B, n rows.
template <int kWay>
TANDEM_DEVICE ptx::SmemDescriptor operand_b(WgmmaStorage& s, int k) {
  if constexpr (kWay == kNarrowWay)
    return k == 0 ? tile::narrowed_k_step<kMaxN, kNarrow>(tile::descriptor_k_major(s.b_16), 0)
                  : tile::narrowed_k_step<kMaxN, kHalf>(tile::descriptor_k_major(s.b_32), k - 1);
  else if constexpr (kWay < 2)
    return tile::descriptor_k_major(s.b_k).advanced(tile::k_step_bytes<kMaxN>(k));
  else
    return tile::descriptor_n_major<kK>(s.b_n).advanced(tile::n_major_k_step_bytes(k));
}

template <DType kType, int kN, int kWay>
TANDEM_DEVICE void multiply_one_way(const Params& params, WgmmaStorage& s, const u32 (&a)[kK / 16][4]) {
  constexpr bool kFromRegisters = kWay % 2 == 1;
  constexpr ptx::Major kMajor = kWay < 2 || kWay == kNarrowWay ? ptx::Major::k : ptx::Major::mn;
  float d[kN / 2];
#pragma unroll
  for (int i = 0; i < kN / 2; ++i) d[i] = static_cast<float>(ptx::thread_index() - i);
  ptx::wgmma_fence();
#pragma unroll
  for (int k = 0; k < (kWay == kNarrowWay ? kNarrowK : kK) / 16; ++k) {
    const bool accumulate = k > 0 || kWay == 3;
    const ptx::SmemDescriptor b = operand_b<kWay>(s, k);
    if constexpr (kFromRegisters)
      ptx::wgmma_rs<kType, kN, kMajor>(d, a[k], b, accumulate);
    else
      ptx::wgmma_ss<kType, kN, kMajor>(d, tile::descriptor_k_major(s.a).advanced(tile::k_step_bytes<kM>(k)), b, accumulate);
  }
  ptx::wgmma_commit_group();
  ptx::wgmma_wait_group<0>();
  ptx::wgmma_settle(d);
  unsigned* const out = params.out + wgmma_offset(kN, kWay) + ptx::thread_index() * (kN / 2);
#pragma unroll
  for (int i = 0; i < kN / 2; ++i) ptx::store_global_4b(out + i, bits(d[i]));
}

template <DType kType, int kN>
TANDEM_DEVICE void multiply_from(const Params& params, WgmmaStorage& s, const u32 (&a)[kK / 16][4]) {
  multiply_one_way<kType, kN, 0>(params, s, a);
  multiply_one_way<kType, kN, 1>(params, s, a);
  multiply_one_way<kType, kN, 2>(params, s, a);
  multiply_one_way<kType, kN, 3>(params, s, a);
  multiply_one_way<kType, kN, kNarrowWay>(params, s, a);
  if constexpr (kN < kMaxN) multiply_from<kType, kN + kStepN>(params, s, a);
}

template <DType kType>
TANDEM_DEVICE void multiply_every_shape(const Params& params) {
  auto& s = ptx::shared_storage<WgmmaStorage>();
  start(s);
  if (ptx::thread_index() == 0) {
    ptx::mbarrier_arrive_expect_tx(s.full, sizeof(s.a) + sizeof(s.b_k) + sizeof(s.b_n) + sizeof(s.b_16) + sizeof(s.b_32));
    ptx::tma_load_4d(s.a, params.a_map, s.full, 0, 0, 0, 0, ptx::CacheHint::evict_normal);
    ptx::tma_load_4d(s.b_k, params.b_k_map, s.full, 0, 0, 0, 0, ptx::CacheHint::evict_normal);
    ptx::tma_load_4d(s.b_16, params.b_16_map, s.full, 0, 0, 0, 0, ptx::CacheHint::evict_normal);
    ptx::tma_load_4d(s.b_32, params.b_32_map, s.full, kNarrow, 0, 0, 0, ptx::CacheHint::evict_normal);
    for (int chunk = 0; chunk < kMaxN / 64; ++chunk) ptx::tma_load_4d(s.b_n[chunk], params.b_n_map, s.full, chunk * 64, 0, 0, 0, ptx::CacheHint::evict_normal);
  }
  ptx::mbarrier_wait(s.full, 0);
  const int lane = ptx::lane_index(), row = ptx::thread_index() / 32 * 16 + lane % 16;
  u32 a[kK / 16][4];
#pragma unroll
  for (int k = 0; k < kK / 16; ++k) ptx::ldmatrix_x4(a[k], ptx::shared_address(s.a) + tile::swizzled_offset(row, k * 2 + lane / 16));
  multiply_from<kType, kFirstN>(params, s, a);
}

// ------------------------------------------------------------------------------------------------------------------------------- moves

TANDEM_DEVICE void dump(unsigned* out, const unsigned char* shared, int words) {
  for (int i = ptx::thread_index(); i < words; i += 128) ptx::store_global_4b(out + i, reinterpret_cast<const u32*>(shared)[i]);
}

TANDEM_DEVICE void load_boxes(MoveStorage& s, u32& phase, const TensorMap& map, const BoxPlace* places, int boxes, int words, unsigned* out) {
  for (int i = 0; i < boxes; ++i) {
    if (ptx::thread_index() == 0) {
      ptx::mbarrier_arrive_expect_tx(s.full, words * 4);
      ptx::tma_load_4d(s.box, map, s.full, places[i].column, places[i].row, places[i].head, places[i].batch, ptx::CacheHint::evict_first);
    }
    ptx::mbarrier_wait(s.full, phase);
    phase ^= 1;
    dump(out + i * words, s.box, words);
    ptx::block_sync();
  }
}

// A word that says where it stands.
TANDEM_DEVICE u32 pattern(int salt, int i) { return static_cast<u32>(salt) << 24 | static_cast<u32>(i) << 8 | static_cast<u32>(i * 7 & 0xff); }

TANDEM_DEVICE void fill(unsigned char* shared, int words, int salt) {
  for (int i = ptx::thread_index(); i < words; i += 128) reinterpret_cast<u32*>(shared)[i] = pattern(salt, i);
}

TANDEM_DEVICE void move_everything(const Params& params) {
  auto& s = ptx::shared_storage<MoveStorage>();
  start(s);
  const int thread = ptx::thread_index(), lane = ptx::lane_index(), warp = thread / 32;
  u32 phase = 0;
  constexpr BoxPlace places[] = {kBoxPlaces[0], kBoxPlaces[1], kBoxPlaces[2], kBoxPlaces[3], kBoxPlaces[4],
                                 kBoxPlaces[5], kBoxPlaces[6], kBoxPlaces[7], kBoxPlaces[8]};
  load_boxes(s, phase, params.odd_map, places, kBoxes, kBoxWords, params.out + offset_of(Move::boxes));
  constexpr BoxPlace flat_places[] = {kFlatPlaces[0], kFlatPlaces[1], kFlatPlaces[2]};
  load_boxes(s, phase, params.flat_map, flat_places, kFlatBoxes, kFlatWords, params.out + offset_of(Move::flat_boxes));

  // Boxes that leave part of each row as it was.
  constexpr NarrowBox narrow_boxes[] = {kNarrowBoxes[0], kNarrowBoxes[1], kNarrowBoxes[2]};
  for (int i = 0; i < kNarrowBoxCount; ++i) {
    fill(s.box, kBoxWords, kNarrowSalt + i);
    ptx::fence_proxy_async_shared();
    ptx::block_sync();
    if (thread == 0) {
      ptx::mbarrier_arrive_expect_tx(s.full, kBoxRows * narrow_boxes[i].columns * 2);
      ptx::tma_load_4d(s.box, params.narrow_maps[i], s.full, kNarrowPlace.column, kNarrowPlace.row, kNarrowPlace.head, kNarrowPlace.batch,
                       ptx::CacheHint::evict_first);
    }
    ptx::mbarrier_wait(s.full, phase);
    phase ^= 1;
    dump(params.out + offset_of(Move::narrow_boxes) + i * kBoxWords, s.box, kBoxWords);
    ptx::block_sync();
  }

  // Stores that stick out.
  constexpr BoxPlace store_places[] = {kStorePlaces[0], kStorePlaces[1], kStorePlaces[2], kStorePlaces[3], kStorePlaces[4]};
  for (int i = 0; i < kStores; ++i) {
    fill(s.box, kBoxWords, i + 1);
    ptx::fence_proxy_async_shared();
    ptx::block_sync();
    if (thread == 0) {
      ptx::tma_store_4d(params.stored_map, s.box, store_places[i].column, store_places[i].row, store_places[i].head, store_places[i].batch);
      ptx::tma_store_commit();
      ptx::tma_store_wait_read<0>();
    }
    ptx::block_sync();
  }

  // Each warp takes four 8 x 8 matrices out of its own 8 rows, 16 pieces of them, in an order of its own.
  fill(s.box, kBoxWords, 100);
  ptx::block_sync();
  u32 r[4];
  ptx::ldmatrix_x4(r, ptx::shared_address(s.box) + tile::swizzled_offset(warp * 8 + lane % 8, (lane / 8 * 2 + warp) % 8));
  for (int i = 0; i < 4; ++i) ptx::store_global_4b(params.out + offset_of(Move::ldmatrix) + (warp * 32 + lane) * 4 + i, r[i]);
  ptx::block_sync();

  // And puts 16 x 16 elements into rows of 128 bytes, two warps at a time: there is room for 32 rows.
  for (int half = 0; half < 2; ++half) {
    fill(s.box, kBoxWords, 101 + half);
    ptx::block_sync();
    if (warp / 2 == half)
      ptx::stmatrix_x4(ptx::shared_address(s.box) + tile::swizzled_offset(warp % 2 * 16 + lane % 16, 2 * (warp % 2) + lane / 16), pattern(1, thread),
                       pattern(2, thread), pattern(3, thread), pattern(4, thread));
    ptx::block_sync();
    dump(params.out + offset_of(Move::stmatrix) + half * 32 * 32, s.box, 32 * 32);
    ptx::block_sync();
  }

  unsigned* const out = params.out + offset_of(Move::shuffles) + thread * 6;
  ptx::store_global_4b(out + 0, static_cast<u32>(ptx::warp_uniform(thread * 3)));
  ptx::store_global_4b(out + 1, ptx::shuffle_xor(static_cast<u32>(thread * 5), 11));
  ptx::store_global_4b(out + 2, bits(ptx::shuffle(static_cast<float>(thread), 13)));
  ptx::store_global_4b(out + 3, ptx::warp_any(thread == 70) ? 1 : 0);
  // Which lane is elected the hardware does not say; that it is one, always the same.
  const bool elected = ptx::elect_one();
  u32 count = elected ? 1 : 0;
  for (int distance = 16; distance > 0; distance /= 2) count += ptx::shuffle_xor(count, distance);
  ptx::store_global_4b(out + 4, count);
  ptx::store_global_4b(out + 5, ptx::elect_one() == elected ? 1 : 0);
}

// -------------------------------------------------------------------------------------------------------------------------- arithmetic

TANDEM_DEVICE void compute_everything(const Params& params) {
  const int thread = ptx::thread_index();
  for (int i = thread; i < kFloats; i += 128) {
    const u32 x = ptx::load_global_4b(params.floats + i);
    const u32 y = ptx::load_global_4b(params.floats + (i + 1) % kFloats);
    const u32 z = ptx::load_global_4b(params.floats + (i + 2) % kFloats);
    const float a = number(x), b = number(y), c = number(z);
    const u32 results[] = {ptx::cvt_pack<true>(a, b), ptx::cvt_pack<false>(a, b), bits(ptx::max(a, b)),      bits(ptx::max_in_place(a, b)),
                           bits(ptx::abs(a)),         bits(ptx::fma(a, b, c)),    bits(ptx::multiply(a, b)), ptx::multiply_high(x, y),
                           bits(ptx::exp2_approx(a)), bits(ptx::log2_approx(a)),  bits(ptx::reciprocal(a))};
    for (int op = 0; op < static_cast<int>(Op::count); ++op) ptx::store_global_4b(params.out + op * kFloats + i, results[op]);
  }
  for (int i = thread; i < kHalves; i += 128) {
    const u32 low = static_cast<u32>(i) | 0x12340000u, high = static_cast<u32>(i) << 16 | 0x4321u;
    unsigned* const out = params.out + kArithmeticWords + i;
    ptx::store_global_4b(out + 0 * kHalves, bits(ptx::cvt_low<true>(low)));
    ptx::store_global_4b(out + 1 * kHalves, bits(ptx::cvt_high<true>(high)));
    ptx::store_global_4b(out + 2 * kHalves, bits(ptx::cvt_low<false>(low)));
    ptx::store_global_4b(out + 3 * kHalves, bits(ptx::cvt_high<false>(high)));
  }
}

// ----------------------------------------------------------------------------------------------------------------------------- clusters

// Two blocks, each loads half of the rows of a box for both.
TANDEM_DEVICE void multicast(const Params& params) {
  auto& s = ptx::shared_storage<MoveStorage>();
  if (ptx::thread_index() == 0) {
    ptx::mbarrier_init(s.full, 1);
    ptx::fence_mbarrier_init();
  }
  ptx::cluster_sync();
  const int rank = ptx::cluster_cta_rank();
  if (ptx::thread_index() == 0) {
    ptx::mbarrier_arrive_expect_tx(s.full, 2 * kFlatWords * 4);
    ptx::tma_load_4d_multicast(s.box + rank * kFlatWords * 4, params.flat_map, s.full, 8 * rank, 40 + 7 * rank, rank, 1, ptx::CacheHint::evict_last, 3);
  }
  ptx::mbarrier_wait(s.full, 0);
  dump(params.out + rank * kBoxWords, s.box, 2 * kFlatWords);
  ptx::cluster_sync();
}
static_assert(2 * kFlatWords == kBoxWords);

}  // namespace tandem::primitives
