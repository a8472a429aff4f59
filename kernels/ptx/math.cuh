// Scalar arithmetic with the instruction chosen by us. exp2 and log2 are the approximations of the special function unit.
#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

// 2^x, relative error below 2^-22; 2^-inf = 0, NaN stays NaN. volatile: ptxas would otherwise sink it below the next max.
TANDEM_DEVICE float exp2_approx(float x) {
  float y;
  asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// tanh(x), relative error below 2^-10.9.
TANDEM_DEVICE float tanh_approx(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

TANDEM_DEVICE float log2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The larger one; a NaN loses against a number. volatile: keeps the maximum of one row inside the exps of the other.
TANDEM_DEVICE float max_in_place(float a, float b) {
  float y;
  asm volatile("max.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

TANDEM_DEVICE float max(float a, float b) { return fmaxf(a, b); }
TANDEM_DEVICE float abs(float x) { return fabsf(x); }
TANDEM_DEVICE float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
// A product that stays rounded: never contracted into a fused multiply-add.
TANDEM_DEVICE float multiply(float a, float b) { return __fmul_rn(a, b); }
// 1 / x, relative error below 2^-23; no branch, unlike the correctly rounded one.
TANDEM_DEVICE float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

TANDEM_DEVICE u32 multiply_high(u32 a, u32 b) { return __umulhi(a, b); }
TANDEM_DEVICE float infinity() { return __int_as_float(0x7f800000); }

}  // namespace tandem::ptx
