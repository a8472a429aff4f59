// Whether a result is right, by the rule of contract 11.
#pragma once

#include <gtest/gtest.h>

#include "support/forward_case.hpp"
#include "support/forward_run.hpp"
#include "support/reference.hpp"

namespace tandem::testing {

struct Errors {
  double out = 0.0;          // max |ours - exact|
  double out_allowed = 0.0;  // 2 max |same-dtype - exact| + a rounding of the largest output
  double lse = 0.0;          // max |ours - exact| / allowed
  double out_rmse = 0.0, same_dtype_rmse = 0.0;
};

// First the positions of NaN and of both infinities must agree, in out and LSE; then out must be within the rule and LSE within fp32
// rounding. `errors` is filled where it is not null. `tanh_error` is the relative error that capped scores may have beside.
::testing::AssertionResult is_right(const ForwardCase& c, const ForwardResult& ours, const ReferenceRows& exact, const ReferenceRows& same_dtype,
                                    Errors* errors = nullptr, double tanh_error = 0.0);

// For inputs without NaN and infinities: every row, compared or not, is finite, or zero with an LSE of -inf, or the sink, where it sees no key.
::testing::AssertionResult every_row_is_defined(const ForwardCase& c, const ForwardResult& ours);

// Bit for bit, except that one NaN is as good as another.
::testing::AssertionResult same_bits(const ForwardCase& c, const ForwardResult& a, const ForwardResult& b);

}  // namespace tandem::testing
