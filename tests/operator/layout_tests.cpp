// Contract 8 and 10: layouts change no bit, or are refused by name.
#include <gmock/gmock.h>

#include <numeric>

#include "operator/operator_tests.hpp"

namespace tandem::testing {
namespace {

ForwardInputs lay_out(const ForwardCase& c, const Values& q, const Values& k, const Values& v) {
  ForwardInputs inputs{HostTensor(c.problem.type, q_shape(c.problem), c.q_layout), HostTensor(c.problem.type, k_shape(c.problem), c.k_layout),
                       HostTensor(c.problem.type, v_shape(c.problem), c.v_layout)};
  inputs.q.set(q);
  inputs.k.set(k);
  inputs.v.set(v);
  return inputs;
}

// The values of `inputs` in contiguous tensors.
ForwardInputs made_contiguous(ForwardCase c, const ForwardInputs& inputs) {
  c.q_layout = c.k_layout = c.v_layout = Layout::bshd;
  return lay_out(c, inputs.q.values(), inputs.k.values(), inputs.v.values());
}

ForwardProblem some_problem(ElementType type, bool causal) {
  return make_problem(type, {.batch = 2, .seqlen_q = 67, .seqlen_k = 130, .num_heads = 4, .num_heads_kv = 2, .head_dim = 40, .causal = causal});
}

// Each tensor in turn, and all at once, in each layout: the bits are those of contiguous tensors with the same values.
TEST_P(OperatorTest, Contract8_NoLayoutChangesABit) {
  for (const ElementType type : types()) {
    for (const bool causal : {false, true}) {
      for (const Layout layout : all_layouts()) {
        for (int which = 0; which < 5; ++which) {
          ForwardCase c = usual(some_problem(type, causal));
          if (which == 0 || which == 4) c.q_layout = layout;
          if (which == 1 || which == 4) c.k_layout = layout;
          if (which == 2 || which == 4) c.v_layout = layout;
          if ((which == 3 || which == 4) && !is_expanded(layout)) c.out_layout = layout;
          const ForwardInputs inputs = make_inputs(c);
          const auto result = run(c, inputs);
          if (result == nullptr) continue;
          const auto contiguous = run(usual(c.problem), made_contiguous(c, inputs));
          if (contiguous != nullptr) {
            EXPECT_TRUE(same_bits(c, *result, *contiguous));
          }
        }
      }
    }
  }
}

TEST_P(OperatorTest, BC94_ExpandedAndTransposedInputsAreRightOrRefused) {
  for (const ElementType type : types()) {
    for (const Layout layout : {Layout::expanded_heads, Layout::expanded_batch, Layout::expanded_sequence, Layout::expanded_dim, Layout::transposed_dim,
                                Layout::bhsd, Layout::sbhd}) {
      ForwardCase c = usual(some_problem(type, true));
      c.q_layout = c.k_layout = c.v_layout = layout;
      expect_right(c);
    }
  }
}

TEST_P(OperatorTest, BC89_StridesOfAxesOfLengthOneAreNeverUsed) {
  for (const ElementType type : types()) {
    for (const ProblemShape& shape : {ProblemShape{.seqlen_q = 1, .seqlen_k = 1, .num_heads = 32, .num_heads_kv = 8, .head_dim = 128},
                                      {.seqlen_q = 1, .seqlen_k = 64, .num_heads = 1, .head_dim = 128},
                                      {.seqlen_q = 70, .seqlen_k = 1, .num_heads = 2, .num_heads_kv = 1},
                                      {.batch = 3, .seqlen_q = 1, .seqlen_k = 1, .num_heads = 1}}) {
      ForwardCase c = usual(make_problem(type, shape));
      c.q_layout = c.k_layout = c.v_layout = c.out_layout = Layout::odd_unit_strides;
      expect_right(c);
    }
  }
}

TEST_P(OperatorTest, BC91_SlicesOfOneFusedProjectionForInputsAndOutput) {
  // [L, 4, 128] views with rows 2048 apart, at 0, 512, 1024 and 1536.
  for (const ElementType type : types()) {
    for (const bool causal : {false, true}) {
      const ForwardProblem p = make_problem(type, {.seqlen_q = 99, .seqlen_k = 99, .num_heads = 4, .head_dim = 128, .causal = causal});
      const ForwardCase c = usual(p);
      const auto slice = [&](std::int64_t offset) { return Placement{99 * 2048, offset, {99 * 2048, 2048, 128, 1}}; };
      const ForwardInputs contiguous = make_inputs(c);
      ForwardInputs inputs{HostTensor(type, q_shape(p), slice(0)), HostTensor(type, k_shape(p), slice(512)), HostTensor(type, v_shape(p), slice(1024))};
      inputs.q.set(contiguous.q.values());
      inputs.k.set(contiguous.k.values());
      inputs.v.set(contiguous.v.values());
      const auto result = run(c, inputs, slice(1536));
      const auto expected = expect_right(c, contiguous);
      if (result != nullptr && expected != nullptr) {
        EXPECT_TRUE(same_bits(c, *result, *expected));
      }
    }
  }
}

TEST_P(OperatorTest, BC92_KeysAndValuesWithDifferentStrides) {
  for (const ElementType type : types()) {
    for (const auto& [k_layout, v_layout] : {std::pair{Layout::every_second_row, Layout::bshd},
                                             {Layout::bshd, Layout::every_second_row},
                                             {Layout::padded_rows, Layout::fused_slice},
                                             {Layout::bhsd, Layout::bshd}}) {
      ForwardCase c = usual(make_problem(type, {.batch = 2, .seqlen_q = 33, .seqlen_k = 200, .num_heads = 4, .num_heads_kv = 2, .head_dim = 64}));
      c.k_layout = k_layout;
      c.v_layout = v_layout;
      const ForwardInputs inputs = make_inputs(c);
      const auto result = expect_right(c, inputs);
      const auto contiguous = run(usual(c.problem), made_contiguous(c, inputs));
      if (result != nullptr && contiguous != nullptr) {
        EXPECT_TRUE(same_bits(c, *result, *contiguous));
      }
    }
  }
}

TEST_P(OperatorTest, BC96_UnalignedTensorsAreRightOrRefusedByName) {
  for (const ElementType type : types()) {
    for (const Layout layout : {Layout::misaligned, Layout::odd_rows, Layout::spread_dim}) {
      for (int which = 0; which < 4; ++which) {
        ForwardCase c = usual(make_problem(type, {.batch = 2, .seqlen_q = 33, .seqlen_k = 70, .num_heads = 2}));
        (which == 0 ? c.q_layout : which == 1 ? c.k_layout : which == 2 ? c.v_layout : c.out_layout) = layout;
        const ForwardInputs inputs = make_inputs(c);
        const ForwardResult result = run_forward(backend(), device(), c, inputs);
        if (refused(c, result.status, result.refused)) {
          const char* const names[] = {"q", "k", "v", "out"};
          EXPECT_THAT(result.status.message(), ::testing::StartsWith(std::string(names[which]) + " ")) << describe(c);
        } else {
          compare(c, inputs, result);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tandem::testing
