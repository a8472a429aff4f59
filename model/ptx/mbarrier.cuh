// mbarrier. The word in shared memory only marks the place: the state is the machine's.
#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

struct Barrier {
  u64 word;
};

TANDEM_DEVICE void mbarrier_init(Barrier& barrier, int arrivals) { device::mbarrier_init(&barrier, arrivals); }
TANDEM_DEVICE void mbarrier_arrive_expect_tx(Barrier& barrier, int bytes) { device::mbarrier_arrive_expect_tx(&barrier, bytes); }
TANDEM_DEVICE void mbarrier_arrive(Barrier& barrier) { device::mbarrier_arrive(&barrier); }
TANDEM_DEVICE void mbarrier_arrive_remote(Barrier& barrier, int cta_rank) { device::mbarrier_arrive_remote(&barrier, cta_rank); }
TANDEM_DEVICE void mbarrier_wait(Barrier& barrier, u32 parity) { device::mbarrier_wait(&barrier, parity); }

}  // namespace tandem::ptx
