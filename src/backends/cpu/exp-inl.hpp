// exp(x) for x <= 0 and tanh(x), for each instruction set. Included once per target by forward_kernel.cpp.
#if defined(TANDEM_CPU_EXP_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_CPU_EXP_INL
#undef TANDEM_CPU_EXP_INL
#else
#define TANDEM_CPU_EXP_INL
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Within 2 ulp; exactly 1 at 0; exactly 0 below -87.33, where the result would leave the normal numbers, and at -inf; NaN at NaN.
template <class V>
HWY_INLINE V exp_nonpositive(V x) {
  const hn::DFromV<V> d;
  const hn::RebindToUnsigned<hn::DFromV<V>> du;

  // x = n ln2 + r. Adding 1.5 * 2^23 leaves the integer n in the low mantissa bits.
  const V magic = hn::Set(d, 12582912.0f);
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), magic);
  const V n = hn::Sub(shifted, magic);
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);

  // exp(r) = 1 + r + r^2 q(r), |r| <= ln2 / 2; minimax for the relative error, 3e-9.
  V q = hn::MulAdd(hn::Set(d, 1.38145985e-3f), r, hn::Set(d, 8.36871689e-3f));
  q = hn::MulAdd(q, r, hn::Set(d, 4.16683880e-2f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.166665206f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.499999934f));
  const V p = hn::MulAdd(hn::Mul(r, r), q, hn::Add(r, hn::Set(d, 1.0f)));

  const auto exponent = hn::Add(hn::ShiftLeft<23>(hn::BitCast(du, shifted)), hn::Set(du, 0x3f800000u));
  const V result = hn::Mul(p, hn::BitCast(d, exponent));
  // A comparison with NaN is false, so NaN passes.
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.33f)), result);
}

// Within 4 ulp; NaN at NaN.
template <class V>
HWY_INLINE V tanh(V x) {
  const hn::DFromV<V> d;
  const V magnitude = hn::Abs(x);

  // Near 0 an odd polynomial (Cephes' tanhf): there 1 - 2 t / (1 + t) would lose digits.
  const V square = hn::Mul(x, x);
  V p = hn::MulAdd(hn::Set(d, -5.70498872745e-3f), square, hn::Set(d, 2.06390887954e-2f));
  p = hn::MulAdd(p, square, hn::Set(d, -5.37397155531e-2f));
  p = hn::MulAdd(p, square, hn::Set(d, 1.33314422036e-1f));
  p = hn::MulAdd(p, square, hn::Set(d, -3.33332819422e-1f));
  const V near_zero = hn::MulAdd(hn::Mul(p, square), x, x);

  const V one = hn::Set(d, 1.0f);
  const V t = exp_nonpositive(hn::Mul(hn::Set(d, -2.0f), magnitude));
  const V far = hn::CopySign(hn::Sub(one, hn::Div(hn::Add(t, t), hn::Add(one, t))), x);
  return hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0.625f)), near_zero, far);
}

}  // namespace tandem::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
