// bar.sync / bar.arrive, by whole warps.
#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

TANDEM_DEVICE void block_sync() { device::block_sync(); }
TANDEM_DEVICE void named_barrier_sync(int id, int threads) { device::named_barrier_sync(id, threads); }
TANDEM_DEVICE void named_barrier_arrive(int id, int threads) { device::named_barrier_arrive(id, threads); }

}  // namespace tandem::ptx
