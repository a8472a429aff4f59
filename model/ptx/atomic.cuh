// Atomics on global memory. One fiber runs at a time, so plain accesses are atomic.
#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

TANDEM_DEVICE u64 atomic_add_global(u64* address, u64 value) { return device::atomic_add_global(address, value); }
TANDEM_DEVICE u64 load_global_relaxed(const u64* address) { return device::load_global_relaxed(address); }
TANDEM_DEVICE void store_global_relaxed(u64* address, u64 value) { device::store_global_relaxed(address, value); }

}  // namespace tandem::ptx
