// What the operator tests ask of the Hopper kernels.
#pragma once

#include <cstddef>

#include "operator/operator_tests.hpp"

namespace tandem::testing {

inline OperatorTarget hopper_operator_target() {
  OperatorTarget target;
  target.name = "hopper";
  target.limits.max_flops = 4e9;
  target.limits.reference_flops = 1e7;
  target.limits.random_cases = 1000;  // of these and the masked ones two in five are refused: layouts and head dims that the kernels do not take
  target.limits.random_masked_cases = 2000;
  target.limits.repeats = 100;
  target.limits.max_untouched_bytes = std::size_t{60} << 30;
  // Within a tile P = 0 still multiplies V, as in O = P V; and scores and sums are FP32: docs/ARCHITECTURE.md, "Where the kernels differ".
  target.limits.invisible_values_may_be_nan = false;
  target.limits.products_beyond_fp32 = false;
  target.limits.sums_beyond_fp32 = false;
  target.limits.tanh_error = 0x1p-10;  // tanh.approx.f32: 2^-10.987
  return target;
}

}  // namespace tandem::testing
