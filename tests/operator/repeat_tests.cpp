// Contract 8: the same call gives the same bits, whatever ran before or runs beside it.
#include <fmt/format.h>

#include <thread>

#include "operator/operator_tests.hpp"

namespace tandem::testing {
namespace {

Placement contiguous_out(const ForwardCase& c) { return place(c.out_layout, out_shape(c.problem)); }

// BC-52: a masked last tile changed the timing of a race.
TEST_P(OperatorTest, BC52_RepeatedRunsGiveTheSameBits) {
  for (const ElementType type : types()) {
    for (const bool causal : {false, true}) {
      const ForwardCase c = usual(largest_that_fits(type, {{.batch = 2, .seqlen_q = 513, .seqlen_k = 769, .num_heads = 4, .num_heads_kv = 2, .causal = causal},
                                                           {.seqlen_q = 129, .seqlen_k = 193, .causal = causal}}));
      const ForwardInputs inputs = make_inputs(c);
      PreparedForward forward(backend(), device(), c, inputs, contiguous_out(c));
      const Status first_status = forward.run();
      if (refused(c, first_status, forward.refused())) continue;
      ASSERT_TRUE(first_status.ok()) << first_status.message();
      const ForwardResult first = forward.result();
      compare(c, inputs, first);
      for (int i = 1; i < limits().repeats; ++i) {
        forward.clear_outputs();
        ASSERT_TRUE(forward.run().ok());
        ASSERT_TRUE(same_bits(c, first, forward.result())) << "run " << i;
      }
    }
  }
}

TEST_P(OperatorTest, BC87_TheResultDoesNotDependOnWhatRanBefore) {
  for (const ElementType type : types()) {
    const ForwardCase c = usual(make_problem(type, {.seqlen_q = 33, .seqlen_k = 29, .num_heads = 8, .num_heads_kv = 2, .head_dim = 128}));
    const ForwardInputs inputs = make_inputs(c);
    const auto before = expect_right(c, inputs);

    // Something of another shape that leaves NaN wherever it can.
    const ForwardCase other = usual(make_problem(type, {.seqlen_q = 130, .seqlen_k = 257, .num_heads = 2, .head_dim = 256, .causal = true}));
    ForwardInputs nan = make_inputs(other);
    const float value = std::numeric_limits<float>::quiet_NaN();
    nan.q.set(Values(q_shape(other.problem), value));
    nan.k.set(Values(k_shape(other.problem), value));
    nan.v.set(Values(v_shape(other.problem), value));
    run(other, nan);

    const auto after = run(c, inputs);
    if (before != nullptr && after != nullptr) {
      EXPECT_TRUE(same_bits(c, *before, *after));
    }
  }
}

TEST_P(OperatorTest, CallsFromSeveralThreadsGiveTheBitsOfCallsAlone) {
  constexpr int kThreads = 4, kRuns = 5;
  const ElementType type = types().front();
  std::vector<ForwardCase> cases;
  std::vector<ForwardInputs> inputs;
  for (int t = 0; t < kThreads; ++t) {
    ForwardCase c = usual(largest_that_fits(
        type, {{.seqlen_q = 200 + 50 * t, .seqlen_k = 400, .num_heads = 4, .causal = t % 2 == 1}, {.seqlen_q = 20 + 50 * t, .seqlen_k = 70}}));
    c.seed = static_cast<std::uint64_t>(t);
    cases.push_back(c);
    inputs.push_back(make_inputs(c));
  }
  std::vector<std::unique_ptr<PreparedForward>> forwards;
  std::vector<ForwardResult> alone;
  for (std::size_t t = 0; t < kThreads; ++t) {
    forwards.push_back(std::make_unique<PreparedForward>(backend(), device(), cases[t], inputs[t], contiguous_out(cases[t])));
    const Status status = forwards[t]->run();
    if (refused(cases[t], status, forwards[t]->refused())) return;
    ASSERT_TRUE(status.ok()) << status.message();
    alone.push_back(forwards[t]->result());
  }
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRuns; ++i) {
        forwards[t]->clear_outputs();
        EXPECT_TRUE(forwards[t]->run().ok());
        EXPECT_TRUE(same_bits(cases[t], alone[t], forwards[t]->result()));
      }
    });
  }
}

}  // namespace
}  // namespace tandem::testing
