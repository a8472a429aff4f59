// Results known without a reference implementation.
#include <algorithm>
#include <cmath>

#include "operator/operator_tests.hpp"
#include "support/golden.hpp"
#include "support/number_format.hpp"

namespace tandem::testing {
namespace {

// Of one rounding of a result of about 1, and of the weights where a backend rounds those.
double tolerance(ElementType type) { return 2.0 * format_of(type).roundoff() + 2e-6; }

TEST_P(OperatorTest, GoldenValuesOfASmallProblem) {
  for (const ElementType type : types()) {
    for (const bool causal : {false, true}) {
      const ForwardCase c = golden::make_case(type, causal);
      const auto result = run(c, golden::make_inputs(c));
      if (result == nullptr) continue;
      for (const golden::GoldenRow& row : golden::rows(causal)) {
        EXPECT_NEAR(result->lse_at(c.problem, 0, row.head, row.query), row.lse, 4e-6) << describe(c);
        for (std::int64_t d = 0; d < 8; ++d) {
          EXPECT_NEAR(result->out.at(0, row.query, row.head, d), row.out[static_cast<std::size_t>(d)], 0.5 * tolerance(type)) << describe(c);
        }
      }
    }
  }
}

TEST_P(OperatorTest, TwoKeysWhoseScoresDifferByTheLogarithmOfThreeWeighThreeToOne) {
  for (const ElementType type : types()) {
    ForwardCase c = usual(make_problem(type, {.seqlen_q = 1, .seqlen_k = 2, .head_dim = 8}));
    c.softmax_scale = static_cast<float>(std::log(3.0));
    ForwardInputs inputs = make_inputs(c);
    Values q(q_shape(c.problem)), k(k_shape(c.problem)), v(v_shape(c.problem));
    q.at(0, 0, 0, 0) = 1.0f;
    k.at(0, 0, 0, 0) = 1.0f;
    for (std::int64_t d = 0; d < 8; ++d) {
      v.at(0, 0, 0, d) = 1.0f;
      v.at(0, 1, 0, d) = -1.0f;
    }
    inputs.q.set(q);
    inputs.k.set(k);
    inputs.v.set(v);
    const auto result = run(c, inputs);
    if (result == nullptr) continue;
    for (const float out : result->out.data) EXPECT_NEAR(out, 0.5, tolerance(type)) << name_of(type);
    EXPECT_NEAR(result->lse.at(0), std::log(4.0), 2e-6) << name_of(type);
  }
}

// Queries of zero weigh all visible keys alike; with one-hot values column j of the output is 1/n where key j is visible and 0 elsewhere.
TEST_P(OperatorTest, BC51_OneHotValuesShowExactlyTheVisibleKeys) {
  for (const ElementType type : types()) {
    for (const bool causal : {false, true}) {
      for (const auto& [seqlen_q, seqlen_k] : {std::pair{1, 1}, {3, 7}, {7, 3}, {64, 64}, {65, 129}, {129, 65}, {129, 200}, {200, 256}, {255, 256}}) {
        const ForwardProblem p =
            make_problem(type, {.seqlen_q = seqlen_q, .seqlen_k = seqlen_k, .num_heads = 2, .num_heads_kv = 1, .head_dim = 256, .causal = causal});
        if (!fits(p)) continue;
        const ForwardCase c = usual(p);
        ForwardInputs inputs = make_inputs(c);
        inputs.q.set(Values(q_shape(p)));
        Values v(v_shape(p));
        for (std::int64_t key = 0; key < seqlen_k; ++key) v.at(0, key, 0, key) = 1.0f;
        inputs.v.set(v);
        const auto result = run(c, inputs);
        if (result == nullptr) continue;

        for (std::int64_t h = 0; h < 2; ++h) {
          for (std::int64_t i = 0; i < seqlen_q; ++i) {
            const std::int64_t visible = causal ? std::clamp<std::int64_t>(i + 1 + seqlen_k - seqlen_q, 0, seqlen_k) : seqlen_k;
            for (std::int64_t j = 0; j < 256; ++j) {
              const double expected = j < visible ? 1.0 / static_cast<double>(visible) : 0.0;
              ASSERT_NEAR(result->out.at(0, i, h, j), expected, expected * tolerance(type)) << describe(c) << " query " << i << " key " << j;
            }
            const double lse = std::log(static_cast<double>(visible));  // -inf where nothing is visible
            if (visible == 0) {
              ASSERT_EQ(result->lse_at(p, 0, h, i), lse) << describe(c) << " query " << i;
            } else {
              ASSERT_NEAR(result->lse_at(p, 0, h, i), lse, 1e-5) << describe(c) << " query " << i;
            }
          }
        }
      }
    }
  }
}

TEST_P(OperatorTest, OutputsAreRoundedToNearest) {
  // Four keys of equal weight; values of 1 and of 1 and a unit in the last place. The mean lies a quarter of a unit from one of them.
  for (const ElementType type : types()) {
    if (type == ElementType::fp32) continue;  // a quarter of a unit is beyond the arithmetic itself
    const auto next = static_cast<float>(1.0 + 2.0 * format_of(type).roundoff());
    for (const std::int64_t larger : {1, 3}) {
      const ForwardCase c = usual(make_problem(type, {.seqlen_q = 3, .seqlen_k = 4, .head_dim = 32}));
      ForwardInputs inputs = make_inputs(c);
      inputs.q.set(Values(q_shape(c.problem)));
      Values v(v_shape(c.problem), 1.0f);
      for (std::int64_t key = 0; key < larger; ++key) std::fill_n(&v.at(0, key, 0, 0), 32, next);
      inputs.v.set(v);
      const auto result = run(c, inputs);
      if (result == nullptr) continue;
      for (const float out : result->out.data) ASSERT_EQ(out, larger == 3 ? next : 1.0f) << describe(c);
    }
  }
}

TEST_P(OperatorTest, OneKeyReturnsItsValueUnchanged) {
  for (const ElementType type : types()) {
    const ForwardCase c = usual(make_problem(type, {.batch = 2, .seqlen_q = 17, .seqlen_k = 1, .num_heads = 4, .num_heads_kv = 2, .head_dim = 64}));
    const ForwardInputs inputs = make_inputs(c);
    const auto result = run(c, inputs);
    if (result == nullptr) continue;
    const Values v = inputs.v.values();
    for (const Row& row : every_row(c.problem)) {
      for (std::int64_t d = 0; d < 64; ++d) {
        ASSERT_EQ(result->out.at(row.batch, row.query, row.head, d), v.at(row.batch, 0, row.head / 2, d)) << describe(c);
      }
    }
  }
}

}  // namespace
}  // namespace tandem::testing
