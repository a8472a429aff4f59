// The cycle counter: the virtual time of a launch that is timed, else 0.
#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

TANDEM_DEVICE u64 clock_cycles() { return device::clock_cycles(); }

TANDEM_DEVICE void store_global_8b(u64* destination, u64 word) { device::store_global(destination, &word, 8); }

}  // namespace tandem::ptx
