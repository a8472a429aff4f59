// Scalar arithmetic. Exact where the hardware is; exp2, log2 and the reciprocal are more precise than its approximations.
#pragma once
#include <cmath>

#include "ptx/platform.cuh"

namespace tandem::ptx {

namespace model_math {

constexpr float kSmallestNormal = 0x1p-126f;

// .ftz: subnormals count as zeros of the same sign.
TANDEM_DEVICE float flush(float x) { return __builtin_fabsf(x) < kSmallestNormal ? __builtin_copysignf(0.0f, x) : x; }

}  // namespace model_math

TANDEM_DEVICE float exp2_approx(float x) {
  TANDEM_COUNT(element);
  return model_math::flush(::exp2f(model_math::flush(x)));
}
TANDEM_DEVICE float tanh_approx(float x) {
  TANDEM_COUNT(element);
  return ::tanhf(x);
}
TANDEM_DEVICE float log2_approx(float x) { return ::log2f(model_math::flush(x)); }
TANDEM_DEVICE float reciprocal(float x) { return model_math::flush(1.0f / model_math::flush(x)); }

// A NaN loses against a number; +0 is larger than -0.
TANDEM_DEVICE float max(float a, float b) {
  TANDEM_COUNT(alu);
  if (a != a) return b;
  if (b != b) return a;
  if (a == b) return __builtin_signbit(a) ? b : a;
  return a > b ? a : b;
}
TANDEM_DEVICE float max_in_place(float a, float b) { return ptx::max(a, b); }
TANDEM_DEVICE float abs(float x) { return __builtin_fabsf(x); }
TANDEM_DEVICE float fma(float a, float b, float c) {
  TANDEM_COUNT(scalar);
  return ::fmaf(a, b, c);
}
TANDEM_DEVICE float multiply(float a, float b) {
  TANDEM_COUNT(scalar);
  return a * b;
}
TANDEM_DEVICE u32 multiply_high(u32 a, u32 b) { return static_cast<u32>(static_cast<u64>(a) * b >> 32); }
TANDEM_DEVICE float infinity() { return __builtin_inff(); }

}  // namespace tandem::ptx
