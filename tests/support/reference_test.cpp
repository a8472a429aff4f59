#include "support/reference.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "support/golden.hpp"

namespace tandem::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

ReferenceRows compute(const ForwardCase& c, const ForwardInputs& inputs, Arithmetic arithmetic = Arithmetic::exact) {
  return reference_rows(c.problem, inputs.q.values(), inputs.k.values(), inputs.v.values(), static_cast<double>(c.softmax_scale), every_row(c.problem),
                        arithmetic);
}

TEST(Reference, GoldenValues) {
  for (const bool causal : {false, true}) {
    const ForwardCase c = golden::make_case(ElementType::fp32, causal);
    const ReferenceRows result = compute(c, golden::make_inputs(c));
    ASSERT_EQ(result.rows.size(), golden::rows(causal).size());
    for (std::size_t r = 0; r < result.rows.size(); ++r) {
      const golden::GoldenRow& expected = golden::rows(causal)[r];
      ASSERT_EQ(result.rows[r].head, expected.head);
      ASSERT_EQ(result.rows[r].query, expected.query);
      EXPECT_NEAR(result.lse[r], expected.lse, 1e-14);
      for (std::size_t d = 0; d < 8; ++d) EXPECT_NEAR(result.out[r * 8 + d], expected.out[d], 1e-14);
    }
  }
}

TEST(Reference, RowsThatSeeNoKeyAreZeroWithAnLseOfMinusInfinity) {
  ForwardCase c;
  c.problem = make_problem(ElementType::bf16, {.seqlen_q = 5, .seqlen_k = 2, .head_dim = 8, .causal = true});
  const ReferenceRows result = compute(c, make_inputs(c));
  for (std::size_t r = 0; r < 5; ++r) {
    EXPECT_EQ(result.sees_keys[r], r >= 3);
    EXPECT_EQ(result.lse[r] == -kInfinity, r < 3);
    EXPECT_EQ(result.out[r * 8] == 0.0, r < 3);
  }
}

TEST(Reference, MasksAreWrittenAsTheContractSaysThem) {
  const Sequence s{.seqlen_q = 4, .seqlen_k = 10};  // query 1 stands at position 7
  const auto visible = [&](const ForwardProblem& p, std::int64_t query) {
    std::string text;
    for (std::int64_t key = 0; key < s.seqlen_k; ++key) text += is_visible(p, s, query, key) ? 'x' : '.';
    return text;
  };
  EXPECT_EQ(visible({.causal = true}, 1), "xxxxxxxx..");
  EXPECT_EQ(visible({.window_left = 2}, 1), ".....xxxxx");
  EXPECT_EQ(visible({.window_right = 1}, 1), "xxxxxxxxx.");
  EXPECT_EQ(visible({.window_left = 2, .window_right = 1}, 1), ".....xxxx.");
  EXPECT_EQ(visible({.attention_chunk = 4}, 1), "....xxxx..");
  EXPECT_EQ(visible({.attention_chunk = 4}, 2), "........xx");
  EXPECT_EQ(visible({.causal = true, .attention_chunk = 4}, 0), "....xxx...");
  const Sequence more_queries{.seqlen_q = 10, .seqlen_k = 4};
  EXPECT_FALSE(sees_keys({.causal = true}, more_queries, 5));
  EXPECT_TRUE(sees_keys({.causal = true}, more_queries, 6));
  EXPECT_FALSE(sees_keys({.window_right = 2}, more_queries, 3));
  EXPECT_TRUE(sees_keys({.window_right = 2}, more_queries, 4));
  EXPECT_FALSE(sees_keys({.attention_chunk = 100}, more_queries, 5));
}

TEST(Reference, ASinkTakesItsShareOfEveryRow) {
  ForwardCase c;
  c.problem = make_problem(ElementType::fp32, {.seqlen_q = 2, .seqlen_k = 1, .head_dim = 8, .causal = true});
  set_sinks(c, {0.0f});
  ForwardInputs inputs = make_inputs(c);
  inputs.q.set(Values(q_shape(c.problem)));
  const ReferenceRows result = reference_rows(c, inputs.q.values(), inputs.k.values(), inputs.v.values(), every_row(c.problem), Arithmetic::exact);
  EXPECT_EQ(result.lse[0], 0.0);  // sees no key
  EXPECT_EQ(result.out[0], 0.0);
  EXPECT_DOUBLE_EQ(result.lse[1], std::log(2.0));
  EXPECT_DOUBLE_EQ(result.out[8], 0.5 * static_cast<double>(inputs.v.values().at(0, 0, 0, 0)));
}

TEST(Reference, ASequenceOfAPackedBatchIsThatSequenceAlone) {
  ForwardCase c;
  c.problem = make_problem(ElementType::fp32, {.head_dim = 8});
  pack_q(c, {1, 3, 3});  // row 0 belongs to none, the second sequence has none
  pack_k(c, {0, 2, 5});
  const ForwardInputs inputs = make_inputs(c);
  const ReferenceRows result = reference_rows(c, inputs.q.values(), inputs.k.values(), inputs.v.values(), every_row(c.problem), Arithmetic::exact);
  ASSERT_EQ(result.rows.size(), 3u);
  EXPECT_FALSE(result.sees_keys[0]);
  EXPECT_EQ(result.out[0], 0.0);
  EXPECT_TRUE(std::isnan(inputs.q.values().at(0, 0, 0, 0)));
  EXPECT_TRUE(std::isfinite(result.lse[1]));
  EXPECT_TRUE(std::isfinite(result.lse[2]));
}

TEST(Reference, AQueryHeadReadsTheKvHeadOfItsGroup) {
  ForwardCase c;
  c.problem = make_problem(ElementType::fp32, {.seqlen_q = 1, .seqlen_k = 1, .num_heads = 6, .num_heads_kv = 2, .head_dim = 8});
  ForwardInputs inputs = make_inputs(c);
  const Values v = inputs.v.values();
  const ReferenceRows result = compute(c, inputs);
  for (std::size_t h = 0; h < 6; ++h) EXPECT_EQ(static_cast<float>(result.out[h * 8]), v.at(0, 0, h < 3 ? 0 : 1, 0));
}

TEST(Reference, AVisibleNanShowsAndAnInvisibleOneDoesNot) {
  ForwardCase c;
  c.problem = make_problem(ElementType::bf16, {.seqlen_q = 4, .seqlen_k = 4, .head_dim = 8, .causal = true});
  ForwardInputs inputs = make_inputs(c);
  Values k = inputs.k.values();
  k.at(0, 2, 0, 5) = std::numeric_limits<float>::quiet_NaN();
  inputs.k.set(k);
  const ReferenceRows result = compute(c, inputs);
  for (std::size_t r = 0; r < 4; ++r) {
    EXPECT_EQ(std::isnan(result.lse[r]), r >= 2);
    EXPECT_EQ(std::isnan(result.out[r * 8]), r >= 2);
  }
}

TEST(Reference, SameDtypeArithmeticErrsAsItsTypeDoes) {
  for (const ElementType type : {ElementType::fp16, ElementType::bf16}) {
    ForwardCase c;
    c.problem = make_problem(type, {.seqlen_q = 32, .seqlen_k = 64, .head_dim = 64});
    const ForwardInputs inputs = make_inputs(c);
    const ReferenceRows exact = compute(c, inputs), standard = compute(c, inputs, Arithmetic::same_dtype);
    double error = 0.0;
    for (std::size_t i = 0; i < exact.out.size(); ++i) error = std::max(error, std::abs(exact.out[i] - standard.out[i]));
    EXPECT_GT(error, type == ElementType::fp16 ? 1e-5 : 1e-4);
    EXPECT_LT(error, type == ElementType::fp16 ? 5e-3 : 4e-2);
  }
}

TEST(Reference, SampledRowsHoldTheEndsOfTheSequence) {
  const ForwardProblem p = make_problem(ElementType::bf16, {.batch = 2, .seqlen_q = 1000, .seqlen_k = 500, .num_heads = 3, .causal = true});
  const std::vector<Row> rows = some_rows(p, 50, 1);
  ASSERT_EQ(rows.size(), 50u);
  const auto holds = [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    return std::any_of(rows.begin(), rows.end(), [&](const Row& row) { return row.batch == b && row.head == h && row.query == i; });
  };
  EXPECT_TRUE(holds(0, 0, 0));
  EXPECT_TRUE(holds(1, 2, 999));
  EXPECT_TRUE(holds(0, 0, 499));  // the last that sees nothing
  EXPECT_TRUE(holds(0, 0, 500));
}

}  // namespace
}  // namespace tandem::testing
