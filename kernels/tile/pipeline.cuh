// A circular buffer in shared memory between one producer warp and the consumer warps.
#pragma once
#include "ptx/mbarrier.cuh"
#include "ptx/warp.cuh"

namespace tandem::tile {

// Where a role stands in a ring: the stage, and the parity of the phase that fills it.
template <int kStages>
struct RingPosition {
  int stage = 0;
  u32 phase = 0;

  TANDEM_DEVICE void advance() {
    if constexpr (kStages == 1) {
      phase ^= 1;
    } else {
      if (++stage == kStages) {
        stage = 0;
        phase ^= 1;
      }
    }
  }
};

// Barriers of a ring. full: one arrival of the producer, and the bytes of the stage. empty: one arrival of every consumer warp of every
// CTA that the stage is loaded for; each warp arrives by itself, since the wait of one warp says nothing of its neighbours.
template <int kStages>
struct Ring {
  ptx::Barrier full[kStages];
  ptx::Barrier empty[kStages];

  TANDEM_DEVICE void init(int consumer_arrivals) {
    for (int stage = 0; stage < kStages; ++stage) {
      ptx::mbarrier_init(full[stage], 1);
      ptx::mbarrier_init(empty[stage], consumer_arrivals);
    }
  }

  // Producer: waits until the stage is free. The first round finds it free.
  TANDEM_DEVICE void acquire(RingPosition<kStages> at) { ptx::mbarrier_wait(empty[at.stage], at.phase ^ 1); }
  TANDEM_DEVICE void expect(RingPosition<kStages> at, int bytes) { ptx::mbarrier_arrive_expect_tx(full[at.stage], bytes); }

  // Consumer: waits until the stage is filled.
  TANDEM_DEVICE void wait(RingPosition<kStages> at) { ptx::mbarrier_wait(full[at.stage], at.phase); }

  // Consumer warp: this warp no longer reads the stage.
  template <int kClusterSize>
  TANDEM_DEVICE void release(RingPosition<kStages> at) {
    if constexpr (kClusterSize == 1) {
      if (ptx::elect_one()) ptx::mbarrier_arrive(empty[at.stage]);
    } else {
      if (ptx::lane_index() < kClusterSize) ptx::mbarrier_arrive_remote(empty[at.stage], ptx::lane_index());
    }
  }
};

}  // namespace tandem::tile
