// The multiprocessor's cycle counter. volatile: it stays where it is written, in the order of other volatile instructions.
#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

TANDEM_DEVICE u64 clock_cycles() {
  u64 cycles;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles)::"memory");
  return cycles;
}

TANDEM_DEVICE void store_global_8b(u64* destination, u64 word) { asm volatile("st.global.b64 [%0], %1;" ::"l"(destination), "l"(word) : "memory"); }

}  // namespace tandem::ptx
