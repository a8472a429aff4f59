// Atomics on global memory, device scope, relaxed: they hand out work, they order nothing.
#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

TANDEM_DEVICE u64 atomic_add_global(u64* address, u64 value) {
  u64 old;
  asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(address), "l"(value) : "memory");
  return old;
}

TANDEM_DEVICE u64 load_global_relaxed(const u64* address) {
  u64 value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
  return value;
}

TANDEM_DEVICE void store_global_relaxed(u64* address, u64 value) { asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory"); }

}  // namespace tandem::ptx
