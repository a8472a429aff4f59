// bar.sync / bar.arrive: sixteen barriers of a block, counted in threads (multiples of 32). Id 0 is __syncthreads.
#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

TANDEM_DEVICE void block_sync() { __syncthreads(); }

// Waits until `threads` threads, this warp's among them, have come to barrier `id`.
TANDEM_DEVICE void named_barrier_sync(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

// Counts this warp in and goes on.
TANDEM_DEVICE void named_barrier_arrive(int id, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

}  // namespace tandem::ptx
