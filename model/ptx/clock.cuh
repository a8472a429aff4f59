// The cycle counter, which stands still in the model: order and not time is what it plays.
#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

TANDEM_DEVICE u64 clock_cycles() { return 0; }

TANDEM_DEVICE void store_global_8b(u64* destination, u64 word) { device::store_global(destination, &word, 8); }

}  // namespace tandem::ptx
