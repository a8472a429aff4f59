// Which tile comes next. Runs in the producer warp; the consumers are told through the tile ring.
#pragma once
#include "attention/seqlens.cuh"
#include "attention/storage.cuh"
#include "ptx/atomic.cuh"
#include "ptx/cluster.cuh"
#include "ptx/math.cuh"
#include "ptx/warp.cuh"

namespace tandem::attention {

template <ForwardSpec kSpec>
class TileScheduler {
 public:
  TANDEM_DEVICE explicit TileScheduler(const ForwardParams& params) : params_(params), seqlens_(params) {
    tile_ = ptx::block_index() / kSpec.cluster;
    if constexpr (kSpec.scheduler == Scheduler::dynamic_persistent) counting_ = ptx::load_global_relaxed(params.counter) >> 32 == kCounterMark >> 32;
  }

  TANDEM_DEVICE bool done() const { return tile_ >= params_.order.tiles; }

  TANDEM_DEVICE TileInfo current() const {
    const TileOrder& order = params_.order;
    const int section = divide(tile_, order.section_tiles);
    const int in_section = tile_ - section * order.section_tiles.divisor;
    const FastDivisor& pairs = section == order.last_section ? order.last_section_pairs : order.section_pairs;
    int m_block = divide(in_section, pairs);
    const int pair = section * order.pairs_per_section + in_section - m_block * pairs.divisor;
    if constexpr (kSpec.causal) m_block = order.m_blocks - 1 - m_block;
    if constexpr (kSpec.cluster > 1) m_block = m_block * kSpec.cluster + ptx::cluster_cta_rank();
    TileInfo tile;
    tile.m_block = m_block;
    tile.batch = divide(pair, order.heads);
    tile.head = pair - tile.batch * order.heads.divisor;
    tile.n_blocks = seqlens_.n_blocks(m_block);
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
        if (taken == static_cast<u32>(params_.order.tiles) - 1) ptx::store_global_relaxed(params_.counter, kCounterMark);
      }
    }
  }

  TANDEM_DEVICE void advance() {
    if constexpr (kSpec.scheduler == Scheduler::single_tile) {
      tile_ = params_.order.tiles;
    } else if constexpr (kSpec.scheduler == Scheduler::static_persistent) {
      tile_ += ptx::grid_size() / kSpec.cluster;
    } else {
      tile_ = counting_ ? ptx::warp_uniform(next_) : tile_ + ptx::grid_size();
    }
  }

 private:
  const ForwardParams& params_;
  Seqlens<kSpec> seqlens_;
  int tile_ = 0;
  int next_ = 0;
  bool counting_ = false;
};

}  // namespace tandem::attention
