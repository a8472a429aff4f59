// Contract 2, 3 and 4: lengths of every kind, none included, and rows that see no key.
#include <algorithm>

#include "operator/operator_tests.hpp"

namespace tandem::testing {
namespace {

TEST_P(OperatorTest, BC01_ZeroKeysGiveZeroOutputAndAnLseOfMinusInfinity) {
  for (const ElementType type : types()) {
    for (const auto& [seqlen_q, head_dim] : {std::pair{128, 128}, {1, 64}, {5, 64}, {65, 80}, {129, 256}}) {
      expect_right(usual(make_problem(type, {.seqlen_q = seqlen_q, .seqlen_k = 0, .num_heads = 8, .head_dim = head_dim})));
    }
  }
}

TEST_P(OperatorTest, BC02_ZeroKeysUnderACausalMaskAndWithSharedHeads) {
  for (const ElementType type : types()) {
    for (const std::int64_t heads_kv : {1, 2, 8}) {
      expect_right(usual(make_problem(type, {.batch = 2, .seqlen_q = 130, .seqlen_k = 0, .num_heads = 8, .num_heads_kv = heads_kv, .causal = true})));
    }
  }
}

TEST_P(OperatorTest, BC07_ZeroRowsOfAShortSequenceLeaveItsNeighboursAlone) {
  // The output is a prefix of a longer buffer, which the run compares with what it was.
  for (const ElementType type : types()) {
    for (const std::int64_t seqlen_q : {1, 5, 65, 127}) {
      ForwardCase c = usual(make_problem(type, {.batch = 3, .seqlen_q = seqlen_q, .seqlen_k = 0, .num_heads = 2}));
      c.out_layout = Layout::cache_prefix;
      c.lse = LseOutput::padded;
      expect_right(c);
    }
  }
}

TEST_P(OperatorTest, Contract4_NothingIsDoneForZeroQueriesOrAnEmptyBatch) {
  for (const ElementType type : types()) {
    for (const bool causal : {false, true}) {
      expect_right(usual(make_problem(type, {.batch = 2, .seqlen_q = 0, .seqlen_k = 7, .num_heads = 4, .causal = causal})));
      expect_right(usual(make_problem(type, {.batch = 2, .seqlen_q = 0, .seqlen_k = 0, .num_heads = 4, .causal = causal})));
      expect_right(usual(make_problem(type, {.batch = 0, .seqlen_q = 9, .seqlen_k = 7, .num_heads = 4, .causal = causal})));
    }
  }
}

TEST_P(OperatorTest, BC11_CausalWithMoreQueriesThanKeysZerosTheRowsThatSeeNothing) {
  for (const ElementType type : types()) {
    const ForwardCase c = usual(
        largest_that_fits(type, {{.seqlen_q = 2048, .seqlen_k = 1024, .num_heads = 2, .causal = true}, {.seqlen_q = 256, .seqlen_k = 128, .causal = true}}));
    const auto result = expect_right(c);
    if (result == nullptr) continue;
    const ForwardProblem& p = c.problem;
    for (const Row& row : every_row(p)) {
      const bool sees_nothing = row.query < p.seqlen_q - p.seqlen_k;
      ASSERT_EQ(std::isinf(result->lse_at(p, 0, row.head, row.query)), sees_nothing) << describe(c) << " query " << row.query;
    }
  }
}

TEST_P(OperatorTest, BC12_OneKeyUnderACausalMaskIsSeenByTheLastRowAlone) {
  for (const ElementType type : types()) {
    for (const auto& [seqlen_q, seqlen_k] : {std::pair{76, 1}, {34, 1}, {146, 1}, {300, 1}}) {
      ForwardCase c = usual(make_problem(type, {.seqlen_q = seqlen_q, .seqlen_k = seqlen_k, .head_dim = 32, .causal = true}));
      c.values = ValueKind::wide;
      const ForwardInputs inputs = make_inputs(c);
      const auto result = expect_right(c, inputs);
      if (result == nullptr) continue;
      for (std::int64_t d = 0; d < 32; ++d) EXPECT_EQ(result->out.at(0, seqlen_q - 1, 0, d), inputs.v.values().at(0, 0, 0, d)) << describe(c);
    }
  }
}

TEST_P(OperatorTest, EveryPairOfLengthsAroundTheTileBorders) {
  constexpr std::int64_t kLengths[] = {1, 11, 99, 127, 128, 129, 255};
  for (const ElementType type : types()) {
    for (const std::int64_t seqlen_q : kLengths) {
      for (const std::int64_t seqlen_k : kLengths) {
        for (const bool causal : {false, true}) {
          const ForwardProblem p = make_problem(type, {.seqlen_q = seqlen_q, .seqlen_k = seqlen_k, .num_heads = 2, .num_heads_kv = 1, .causal = causal});
          if (fits(p)) expect_right(usual(p));
        }
      }
    }
  }
}

TEST_P(OperatorTest, BC44_NoStepInTheErrorAsTheNumberOfKeysPassesTileBorders) {
  // One query, every number of keys up to two tiles and more; the rest of the buffers is NaN.
  const std::int64_t step = limits().max_flops < 1e8 ? 7 : 1;
  for (const ElementType type : types()) {
    for (std::int64_t seqlen_k = 1; seqlen_k <= 300; seqlen_k += step) {
      const ForwardProblem p = make_problem(type, {.seqlen_q = 1, .seqlen_k = seqlen_k, .num_heads = 6, .num_heads_kv = 1, .head_dim = 128});
      ForwardCase c = usual(p);
      c.k_layout = c.v_layout = Layout::cache_prefix;
      c.seed = static_cast<std::uint64_t>(seqlen_k);
      expect_right(c);
    }
  }
}

TEST_P(OperatorTest, LongSequences) {
  for (const ElementType type : types()) {
    for (const bool causal : {false, true}) {
      for (const auto& [seqlen_q, seqlen_k] : {std::pair{1763, 1763}, {1, 5000}, {17, 4097}, {1763, 255}, {255, 1763}}) {
        const ForwardProblem p = make_problem(type, {.seqlen_q = seqlen_q, .seqlen_k = seqlen_k, .num_heads = 2, .num_heads_kv = 1, .causal = causal});
        if (fits(p)) expect_right(usual(p));
      }
    }
  }
}

TEST_P(OperatorTest, BC79_LengthsOfImageModelsWithFortyHeads) {
  for (const ElementType type : types()) {
    for (const std::int64_t seqlen_k : {257, 1512}) {
      const ForwardProblem p = largest_that_fits(type, {{.seqlen_q = 257, .seqlen_k = seqlen_k, .num_heads = 40, .head_dim = 128},
                                                        {.seqlen_q = 65, .seqlen_k = 257, .num_heads = 40, .head_dim = 128},
                                                        {.seqlen_q = 17, .seqlen_k = 65, .num_heads = 10, .head_dim = 128}});
      expect_right(usual(p));
    }
  }
}

}  // namespace
}  // namespace tandem::testing
