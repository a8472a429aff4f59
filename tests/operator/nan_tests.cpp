// Contract 5: a visible NaN shows, an invisible one does not.
#include <cmath>
#include <limits>

#include "operator/operator_tests.hpp"

namespace tandem::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Causal: a key in the middle of the first tile of 64 and one in the last, incomplete tile.
constexpr std::int64_t kKeys[] = {0, 37, 130};

ForwardCase causal_case(ElementType type) {
  ForwardCase c;
  c.problem = make_problem(type, {.seqlen_q = 140, .seqlen_k = 133, .num_heads = 2, .num_heads_kv = 1, .causal = true});
  return c;
}

TEST_P(OperatorTest, BC21_NanInAVisibleKeyShowsInOutputAndLseOfEveryRowThatSeesIt) {
  for (const ElementType type : types()) {
    for (const bool causal : {false, true}) {
      for (const std::int64_t key : kKeys) {
        ForwardCase c = causal_case(type);
        c.problem.causal = causal;
        ForwardInputs inputs = make_inputs(c);
        Values k = inputs.k.values();
        k.at(0, key, 0, 5) = kNan;
        inputs.k.set(k);
        expect_right(c, inputs);
      }
    }
  }
}

TEST_P(OperatorTest, BC21_NanInAQueryShowsInItsRowAndInNoOther) {
  for (const ElementType type : types()) {
    for (const std::int64_t query : {std::int64_t{7}, std::int64_t{63}, std::int64_t{139}}) {
      const ForwardCase c = causal_case(type);
      ForwardInputs inputs = make_inputs(c);
      Values q = inputs.q.values();
      q.at(0, query, 1, 63) = kNan;
      inputs.q.set(q);
      expect_right(c, inputs);
    }
  }
}

TEST_P(OperatorTest, BC21_NanInEveryKeyIsNotTakenForAnEmptyRow) {
  for (const ElementType type : types()) {
    const ForwardCase c = causal_case(type);
    ForwardInputs inputs = make_inputs(c);
    inputs.k.set(Values(k_shape(c.problem), kNan));
    expect_right(c, inputs);
  }
}

TEST_P(OperatorTest, BC21_NanInAVisibleValueShowsInItsColumnOfTheOutput) {
  for (const ElementType type : types()) {
    ForwardCase c = causal_case(type);
    c.problem.causal = false;
    ForwardInputs inputs = make_inputs(c);
    Values v = inputs.v.values();
    v.at(0, 41, 0, 9) = kNan;
    inputs.v.set(v);
    expect_right(c, inputs);
  }
}

TEST_P(OperatorTest, NanAndInfinityInAnInvisibleKeyDoNotShow) {
  // Masks select: what a masked score was does not matter.
  for (const ElementType type : types()) {
    for (const float garbage : {kNan, kInfinity, -kInfinity}) {
      const ForwardCase c = causal_case(type);
      ForwardInputs inputs = make_inputs(c);
      Values k = inputs.k.values();
      const ForwardResult clean = run_forward(backend(), device(), c, inputs);
      for (std::int64_t d = 0; d < 64; ++d) k.at(0, 132, 0, d) = garbage;  // seen by the last query alone
      inputs.k.set(k);
      const auto result = run(c, inputs);
      if (result == nullptr) continue;
      for (std::int64_t i = 0; i + 1 < c.problem.seqlen_q; ++i) {
        for (std::int64_t d = 0; d < 64; ++d) ASSERT_EQ(result->out.at(0, i, 0, d), clean.out.at(0, i, 0, d)) << describe(c) << " query " << i;
        ASSERT_EQ(result->lse_at(c.problem, 0, 0, i), clean.lse_at(c.problem, 0, 0, i)) << describe(c) << " query " << i;
      }
    }
  }
}

TEST_P(OperatorTest, NanAndInfinityInAnInvisibleValueDoNotShow) {
  if (!limits().invisible_values_may_be_nan) GTEST_SKIP() << "this backend multiplies masked values of a visible tile by 0";
  for (const ElementType type : types()) {
    for (const float garbage : {kNan, kInfinity, -kInfinity}) {
      for (const std::int64_t key : kKeys) {
        const ForwardCase c = causal_case(type);
        ForwardInputs inputs = make_inputs(c);
        Values v = inputs.v.values();
        for (std::int64_t d = 0; d < 64; d += 3) v.at(0, key, 0, d) = garbage;
        inputs.v.set(v);
        expect_right(c, inputs);
      }
    }
  }
}

}  // namespace
}  // namespace tandem::testing
