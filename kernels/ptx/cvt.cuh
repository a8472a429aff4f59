// Conversions between FP32 and pairs of 16-bit numbers (round to nearest even). `low` lies at the lower address.
#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

template <bool kBf16>
TANDEM_DEVICE u32 cvt_pack(float low, float high) {
  u32 packed;
  if constexpr (kBf16)
    asm volatile("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  else
    asm volatile("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

}  // namespace tandem::ptx
