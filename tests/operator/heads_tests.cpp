// Head counts and head dimensions.
#include <gmock/gmock.h>

#include "operator/operator_tests.hpp"

namespace tandem::testing {
namespace {

TEST_P(OperatorTest, BC101_AnyRatioOfHeads) {
  for (const ElementType type : types()) {
    for (const auto& [heads, heads_kv] : {std::pair{96, 8}, {40, 4}, {5, 1}, {10, 2}, {7, 1}, {48, 1}, {71, 1}, {142, 2}, {6, 6}}) {
      for (const std::int64_t seqlen_q : {1, 3, 17}) {
        for (const bool causal : {false, true}) {
          const ForwardProblem p =
              make_problem(type, {.seqlen_q = seqlen_q, .seqlen_k = 99, .num_heads = heads, .num_heads_kv = heads_kv, .head_dim = 64, .causal = causal});
          if (fits(p)) expect_right(usual(p));
        }
      }
    }
  }
}

TEST_P(OperatorTest, BC102_HeadsThatAreNoMultipleOfTheKvHeadsAreRefused) {
  for (const auto& [heads, heads_kv] : {std::pair{33, 2}, {3, 2}, {2, 3}, {1, 2}}) {
    const ForwardCase c = usual(make_problem(types().front(), {.seqlen_q = 5, .seqlen_k = 5, .num_heads = heads, .num_heads_kv = heads_kv}));
    const ForwardResult result = run_forward(backend(), device(), c, make_inputs(c));
    EXPECT_TRUE(result.refused) << describe(c);
    EXPECT_EQ(result.status.code(), StatusCode::invalid_argument) << describe(c);
    EXPECT_THAT(result.status.message(), ::testing::AllOf(::testing::HasSubstr(std::to_string(heads)), ::testing::HasSubstr(std::to_string(heads_kv))));
    for (const std::uint32_t bits : result.bits) ASSERT_EQ(bits & 0xffffu, 0xffffu) << "the output of a refused call was written";
  }
}

TEST_P(OperatorTest, EveryMultipleOfEightUpTo256AsHeadDim) {
  for (const ElementType type : types()) {
    for (std::int64_t head_dim = 8; head_dim <= 256; head_dim += 8) {
      for (const bool causal : {false, true}) {
        ForwardCase c = usual(make_problem(type, {.seqlen_q = 67, .seqlen_k = 131, .num_heads = 2, .num_heads_kv = 1, .head_dim = head_dim, .causal = causal}));
        // The columns beside a row are NaN, and those beside the output must stay as they are.
        c.q_layout = c.k_layout = c.v_layout = c.out_layout = Layout::padded_rows;
        if (fits(c.problem)) expect_right(c);
      }
    }
  }
}

TEST_P(OperatorTest, HeadDim192WithHeadDimV128) {
  for (const ElementType type : types()) {
    for (const bool causal : {false, true}) {
      const ForwardProblem p = largest_that_fits(
          type, {{.batch = 2, .seqlen_q = 300, .seqlen_k = 333, .num_heads = 4, .num_heads_kv = 2, .head_dim = 192, .head_dim_v = 128, .causal = causal},
                 {.seqlen_q = 65, .seqlen_k = 129, .head_dim = 192, .head_dim_v = 128, .causal = causal}});
      expect_right(usual(p));
    }
  }
}

TEST_P(OperatorTest, BC126_OtherHeadDimsAreRightOrRefusedByName) {
  struct Dims {
    std::int64_t qk, v;
  };
  for (const ElementType type : types()) {
    for (const Dims& dims : {Dims{64, 512},
                             {128, 64},
                             {64, 256},
                             {40, 72},
                             {512, 512},
                             {576, 512},
                             {1, 1},
                             {3, 5},
                             {7, 64},
                             {64, 7},
                             {65, 65},
                             {100, 36},
                             {255, 257},
                             {264, 264}}) {
      const ForwardProblem p = largest_that_fits(
          type,
          {{.batch = 4, .seqlen_q = 1, .seqlen_k = dims.v == 512 ? 1024 : 130, .num_heads = 16, .num_heads_kv = 1, .head_dim = dims.qk, .head_dim_v = dims.v},
           {.seqlen_q = 1, .seqlen_k = 130, .num_heads = 2, .num_heads_kv = 1, .head_dim = dims.qk, .head_dim_v = dims.v}});
      const ForwardCase c = usual(p);
      const ForwardInputs inputs = make_inputs(c);
      const ForwardResult result = run_forward(backend(), device(), c, inputs);
      if (refused(c, result.status, result.refused)) {
        EXPECT_THAT(result.status.message(), ::testing::HasSubstr("head_dim")) << describe(c);
      } else {
        compare(c, inputs, result);
      }
    }
  }
}

TEST_P(OperatorTest, LseIsOptionalAndItsAbsenceChangesNoBit) {
  for (const ElementType type : types()) {
    for (const bool causal : {false, true}) {
      ForwardCase c = usual(make_problem(type, {.batch = 2, .seqlen_q = 67, .seqlen_k = 131, .num_heads = 2, .causal = causal}));
      const ForwardInputs inputs = make_inputs(c);
      const auto with = run(c, inputs);
      c.lse = LseOutput::padded;
      const auto padded = run(c, inputs);
      c.lse = LseOutput::absent;
      const auto without = run(c, inputs);
      if (with == nullptr || padded == nullptr || without == nullptr) continue;
      EXPECT_TRUE(same_bits(c, *with, *padded));
      EXPECT_EQ(with->bits, without->bits) << describe(c);
    }
  }
}

}  // namespace
}  // namespace tandem::testing
