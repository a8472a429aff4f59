// Which tile comes next. Runs in the producer warp; the consumers are told through the tile ring.
#pragma once
#include "attention/seqlens.cuh"
#include "attention/storage.cuh"
#include "ptx/atomic.cuh"
#include "ptx/cluster.cuh"
#include "ptx/ldst.cuh"
#include "ptx/math.cuh"
#include "ptx/warp.cuh"

namespace tandem::attention {

template <ForwardSpec kSpec>
class TileScheduler {
 public:
  TANDEM_DEVICE explicit TileScheduler(const ForwardParams& params) : params_(params) {
    tile_ = ptx::block_index() / kSpec.cluster;
    if constexpr (kSpec.ragged)
      tiles_ = static_cast<int>(ptx::load_global_relaxed(&params.tile_list->entries)) * params.order.heads.divisor;
    else
      tiles_ = params.order.tiles;
    if constexpr (kSpec.scheduler == Scheduler::dynamic_persistent) counting_ = ptx::load_global_relaxed(params.counter) >> 32 == kCounterMark >> 32;
  }

  TANDEM_DEVICE bool done() const { return tile_ >= tiles_; }

  TANDEM_DEVICE TileInfo current() const {
    TileInfo tile = kSpec.ragged ? listed() : computed();
    tile.end_block = Seqlens<kSpec>(params_, tile).end_block(tile.m_block);
    return tile;
  }

  // Asks for the tile after the current one; the answer is needed only in advance().
  TANDEM_DEVICE void request_next() {
    if constexpr (kSpec.scheduler == Scheduler::dynamic_persistent) {
      if (!counting_) return;
      if (ptx::lane_index() == 0) {
        const u32 taken = static_cast<u32>(ptx::atomic_add_global(params_.counter, 1));
        next_ = static_cast<int>(taken) + ptx::grid_size();
        // Every block asks until it is refused, so `tiles` requests are made in all; the last one leaves the counter as it was found.
        if (taken == static_cast<u32>(tiles_) - 1) ptx::store_global_relaxed(params_.counter, kCounterMark);
      }
    }
  }

  TANDEM_DEVICE void advance() {
    if constexpr (kSpec.scheduler == Scheduler::single_tile) {
      tile_ = tiles_;
    } else if constexpr (kSpec.scheduler == Scheduler::static_persistent) {
      tile_ += ptx::grid_size() / kSpec.cluster;
    } else {
      tile_ = counting_ ? ptx::warp_uniform(next_) : tile_ + ptx::grid_size();
    }
  }

 private:
  // From the list: all heads of an entry, then the next entry.
  TANDEM_DEVICE TileInfo listed() const {
    const int index = divide(tile_, params_.order.heads);
    const TileEntry* const entry = reinterpret_cast<const TileEntry*>(params_.tile_list + 1) + index;
    const auto load = [](const int& word) { return ptx::warp_uniform(static_cast<int>(ptx::load_global_4b(&word))); };
    TileInfo tile{};
    tile.m_block = load(entry->m_block);
    tile.head = tile_ - index * params_.order.heads.divisor;
    tile.batch = load(entry->q_batch);
    tile.seqlen_q = load(entry->seqlen_q);
    tile.seqlen_k = load(entry->seqlen_k);
    tile.q_end = load(entry->q_end);
    tile.k_end = load(entry->k_end);
    tile.k_batch = load(entry->k_batch);
    return tile;
  }

  TANDEM_DEVICE TileInfo computed() const {
    const TileOrder& order = params_.order;
    int m_block, pair;
    if (kSpec.causal && !kSpec.local && tile_ >= order.in_sections) {
      const int at = tile_ - order.in_sections, row = divide(at, order.pairs);
      m_block = order.held_back - 1 - row;
      pair = at - row * order.pairs.divisor;
    } else {
      const int section = divide(tile_, order.section_tiles);
      const int in_section = tile_ - section * order.section_tiles.divisor;
      const FastDivisor& pairs = section == order.last_section ? order.last_section_pairs : order.section_pairs;
      const int row = divide(in_section, pairs);
      m_block = kSpec.causal ? order.m_blocks - 1 - row : row;
      pair = section * order.pairs_per_section + in_section - row * pairs.divisor;
    }
    if constexpr (kSpec.cluster > 1) m_block = m_block * kSpec.cluster + ptx::cluster_cta_rank();
    TileInfo tile{};
    tile.m_block = m_block;
    tile.batch = divide(pair, order.heads);
    tile.head = pair - tile.batch * order.heads.divisor;
    return tile;
  }

  const ForwardParams& params_;
  int tiles_ = 0;
  int tile_ = 0;
  int next_ = 0;
  bool counting_ = false;
};

}  // namespace tandem::attention
