#include "support/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "support/number_format.hpp"

namespace tandem::testing {
namespace {

using ::testing::AssertionFailure;
using ::testing::AssertionResult;
using ::testing::AssertionSuccess;

enum class Class { finite, nan, plus_infinity, minus_infinity };

Class class_of(double x) {
  if (std::isnan(x)) return Class::nan;
  if (std::isinf(x)) return x > 0 ? Class::plus_infinity : Class::minus_infinity;
  return Class::finite;
}

std::string describe(const Row& row) { return fmt::format("batch {} head {} query {}", row.batch, row.head, row.query); }

// What may differ beyond twice the standard implementation's error: that error is a maximum over a few numbers and may be small by luck.
double small_term(ElementType type, double largest_output, double score_magnitude) {
  const NumberFormat format = format_of(type);
  const double rounding = std::max(format.roundoff() * largest_output, format.smallest_subnormal());
  const double sums = 0x1p-20 * largest_output;
  // In fp32 the rounding of a score, which moves its weight, is no smaller than that of the result.
  return type == ElementType::fp32 ? rounding + sums * (1.0 + 0.25 * score_magnitude) : rounding + sums;
}

double lse_allowed(double lse, double score_magnitude) { return 2e-6 * (1.0 + std::abs(lse)) + 1e-6 * score_magnitude; }

}  // namespace

AssertionResult is_right(const ForwardCase& c, const ForwardResult& ours, const ReferenceRows& exact, const ReferenceRows& same_dtype, Errors* errors,
                         double tanh_error) {
  const auto fail = [&] { return AssertionFailure() << "\n  case: " << describe(c) << "\n  plan: " << ours.plan << "\n  "; };
  const std::int64_t dim = exact.head_dim_v;

  // Where the result leaves the type's range, an infinity is right.
  const auto expected = [&](std::size_t i) {
    const double value = exact.out[i];
    return std::isfinite(value) ? round_to(c.problem.type, value) : value;
  };

  Errors e;
  double standard_error = 0.0, largest = 0.0, magnitude = 0.0, squares = 0.0, standard_squares = 0.0;
  std::size_t worst = 0, count = 0;
  for (std::size_t r = 0; r < exact.rows.size(); ++r) {
    const Row& row = exact.rows[r];
    magnitude = std::max(magnitude, exact.score_magnitude[r]);
    for (std::int64_t d = 0; d < dim; ++d) {
      const std::size_t i = r * static_cast<std::size_t>(dim) + static_cast<std::size_t>(d);
      const double got = ours.out.at(row.batch, row.query, row.head, d);
      if (class_of(got) != class_of(expected(i))) {
        return fail() << "out at " << describe(row) << " column " << d << " is " << got << ", exact is " << exact.out[i];
      }
      if (class_of(got) != Class::finite) continue;
      if (!exact.sees_keys[r] && got != 0.0) return fail() << "out at " << describe(row) << " column " << d << " is " << got << "; the row sees no key";
      const double error = std::abs(got - exact.out[i]);
      if (error > e.out) {
        e.out = error;
        worst = i;
      }
      largest = std::max(largest, std::abs(exact.out[i]));
      squares += error * error;
      ++count;
      if (!std::isfinite(same_dtype.out[i])) continue;  // its scores overflowed; ours need not
      const double standard = std::abs(same_dtype.out[i] - exact.out[i]);
      standard_error = std::max(standard_error, standard);
      standard_squares += standard * standard;
    }

    if (ours.lse.empty()) continue;
    const double got = ours.lse_at(c.problem, row.batch, row.head, row.query);
    if (class_of(got) != class_of(exact.lse[r])) return fail() << "lse at " << describe(row) << " is " << got << ", exact is " << exact.lse[r];
    if (class_of(got) != Class::finite) continue;
    const double capped = c.problem.softcap ? tanh_error * exact.largest_score[r] : 0.0;
    const double allowed = lse_allowed(exact.lse[r], exact.score_magnitude[r]) + capped;
    const double ratio = std::abs(got - exact.lse[r]) / allowed;
    if (ratio > 1.0) {
      return fail() << "lse at " << describe(row) << " is " << got << ", exact is " << exact.lse[r] << "; allowed is a difference of " << allowed;
    }
    e.lse = std::max(e.lse, ratio);
  }
  e.out_allowed = 2.0 * standard_error + small_term(c.problem.type, largest, magnitude);
  e.out_rmse = std::sqrt(squares / static_cast<double>(std::max<std::size_t>(count, 1)));
  e.same_dtype_rmse = std::sqrt(standard_squares / static_cast<double>(std::max<std::size_t>(count, 1)));
  if (errors != nullptr) *errors = e;
  if (e.out > e.out_allowed) {
    const Row& row = exact.rows[worst / static_cast<std::size_t>(dim)];
    const auto column = static_cast<std::int64_t>(worst % static_cast<std::size_t>(dim));
    return fail() << "out at " << describe(row) << " column " << column << " is " << ours.out.at(row.batch, row.query, row.head, column) << ", exact is "
                  << exact.out[worst] << "; the difference of " << e.out << " is more than " << e.out_allowed << " (a standard implementation errs by "
                  << standard_error << ")";
  }
  return AssertionSuccess();
}

AssertionResult every_row_is_defined(const ForwardCase& c, const ForwardResult& ours) {
  const ForwardProblem& p = c.problem;
  const Sequences sequences(c);
  for (const Row& row : every_row(p)) {
    const Sequence* const sequence = sequences.of(row.batch, row.query);
    const bool sees = sequence != nullptr && sees_keys(p, *sequence, row.query - sequence->q_begin);
    const auto fail = [&] { return AssertionFailure() << "\n  case: " << describe(c) << "\n  " << describe(row) << ": "; };
    for (std::int64_t d = 0; d < p.head_dim_v; ++d) {
      const float out = ours.out.at(row.batch, row.query, row.head, d);
      if (sees ? !std::isfinite(out) : out != 0.0f) return fail() << "out in column " << d << " is " << out;
    }
    if (ours.lse.empty()) continue;
    const float lse = ours.lse_at(p, row.batch, row.head, row.query);
    const bool is_sink = p.sinks && lse == c.sinks[static_cast<std::size_t>(row.head)];
    const bool is_nothing = class_of(static_cast<double>(lse)) == Class::minus_infinity;
    const bool right = sees ? std::isfinite(lse) : sequence != nullptr && p.sinks ? is_sink : is_nothing;
    if (!right) return fail() << "lse is " << lse;
  }
  return AssertionSuccess();
}

AssertionResult same_bits(const ForwardCase& c, const ForwardResult& a, const ForwardResult& b) {
  const auto fail = [&] { return AssertionFailure() << "\n  case: " << describe(c) << "\n  "; };
  if (a.bits.size() != b.bits.size() || a.lse.size() != b.lse.size()) return fail() << "different sizes";
  for (std::size_t i = 0; i < a.bits.size(); ++i) {
    if (a.bits[i] == b.bits[i] || (std::isnan(a.out.data[i]) && std::isnan(b.out.data[i]))) continue;
    return fail() << "element " << i << " of out is " << a.out.data[i] << " and " << b.out.data[i];
  }
  for (std::size_t i = 0; i < a.lse.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(a.lse[i]) == std::bit_cast<std::uint32_t>(b.lse[i]) || (std::isnan(a.lse[i]) && std::isnan(b.lse[i]))) continue;
    return fail() << "element " << i << " of lse is " << a.lse[i] << " and " << b.lse[i];
  }
  return AssertionSuccess();
}

}  // namespace tandem::testing
