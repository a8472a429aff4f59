// Conversions between FP32 and pairs of 16-bit numbers, bit for bit as cvt.rn does them.
#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

namespace model_cvt {

// Round to nearest even on the bits; a NaN becomes the one that the hardware makes.
TANDEM_DEVICE u32 to_bf16(float value) {
  const u32 bits = __builtin_bit_cast(u32, value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fffu;
  return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}

TANDEM_DEVICE u32 to_fp16(float value) {
  const u32 bits = __builtin_bit_cast(u32, value);
  const u32 sign = bits >> 16 & 0x8000u;
  const u32 magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fffu;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // 65,520 and above round to infinity
  if (magnitude < 0x38800000u) {                        // subnormal: the sum with 1/2 rounds at the right bit
    const float sum = __builtin_bit_cast(float, magnitude) + 0.5f;
    return sign | (__builtin_bit_cast(u32, sum) - 0x3f000000u);
  }
  return sign | ((magnitude - 0x38000000u + 0x0fffu + (magnitude >> 13 & 1)) >> 13);
}

TANDEM_DEVICE float from_fp16(u32 half) {
  const u32 sign = (half & 0x8000u) << 16;
  const u32 magnitude = (half & 0x7fffu) << 13;
  if (magnitude >= 0x0f800000u) return __builtin_bit_cast(float, sign | magnitude | 0x7f800000u);
  return __builtin_bit_cast(float, sign | __builtin_bit_cast(u32, __builtin_bit_cast(float, magnitude) * 0x1p112f));
}

}  // namespace model_cvt

template <bool kBf16>
TANDEM_DEVICE u32 cvt_pack(float low, float high) {
  TANDEM_COUNT(alu);
  if constexpr (kBf16)
    return model_cvt::to_bf16(high) << 16 | model_cvt::to_bf16(low);
  else
    return model_cvt::to_fp16(high) << 16 | model_cvt::to_fp16(low);
}

template <bool kBf16>
TANDEM_DEVICE float cvt_low(u32 pair) {
  if constexpr (kBf16) return __builtin_bit_cast(float, pair << 16);
  return model_cvt::from_fp16(pair & 0xffffu);
}

template <bool kBf16>
TANDEM_DEVICE float cvt_high(u32 pair) {
  if constexpr (kBf16) return __builtin_bit_cast(float, pair & 0xffff0000u);
  return model_cvt::from_fp16(pair >> 16);
}

}  // namespace tandem::ptx
