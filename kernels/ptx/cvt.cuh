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

// The two halves of a pair as FP32, exactly.
template <bool kBf16>
TANDEM_DEVICE float cvt_low(u32 pair) {
  if constexpr (kBf16) return __uint_as_float(pair << 16);
  float value;
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.f32.f16 %0, low;\n}" : "=f"(value) : "r"(pair));
  return value;
}

template <bool kBf16>
TANDEM_DEVICE float cvt_high(u32 pair) {
  if constexpr (kBf16) return __uint_as_float(pair & 0xffff0000u);
  float value;
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.f32.f16 %0, high;\n}" : "=f"(value) : "r"(pair));
  return value;
}

}  // namespace tandem::ptx
