// Specs for tests: all that ship or are tuned, and random ones.
#pragma once

#include <random>
#include <vector>

#include "attention/budget.hpp"
#include "plan/shipped.hpp"

namespace tandem::testing {

inline std::vector<ForwardSpec> shipped_specs() {
  std::vector<ForwardSpec> specs;
  for (std::size_t i = 0; i < kShippedCount; ++i) specs.push_back(shipped_forward(i));
  return specs;
}

class RandomSpecs {
 public:
  explicit RandomSpecs(std::uint64_t seed) : engine_(seed) {}

  // Every field drawn from its range; most such specs break a rule.
  ForwardSpec any() {
    ForwardSpec spec;
    spec.dtype = pick({DType::fp16, DType::bf16});
    spec.head_dim = 8 * between(2, 32);
    spec.head_dim_v = between(0, 1) == 0 ? spec.head_dim : 16 * between(1, 16);
    spec.causal = flag();
    spec.consumer_warpgroups = between(1, 3);
    spec.block_n = 16 * between(1, 16);
    spec.stages = between(1, 4);
    spec.q_buffers = between(1, 2);
    spec.ctas_per_sm = between(1, 4);
    spec.cluster = between(1, 2);
    spec.overlap = flag();
    spec.q_in_registers = flag();
    spec.lazy_rescale = flag();
    spec.turns = pick({Turns::none, Turns::gemm_issue, Turns::exp_section});
    spec.output_stage = pick({OutputStage::registers, OutputStage::q_buffer, OutputStage::own});
    spec.scheduler = pick({Scheduler::single_tile, Scheduler::static_persistent, Scheduler::dynamic_persistent});
    spec.timeline = flag();
    return spec;
  }

  // One that obeys the budget.
  ForwardSpec valid() {
    while (true)
      if (const ForwardSpec spec = any(); budget::broken_rule(spec) == nullptr) return spec;
  }

  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }
  bool flag() { return between(0, 1) == 1; }

 private:
  template <class T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[between(0, static_cast<int>(values.size()) - 1)];
  }

  std::mt19937_64 engine_;
};

}  // namespace tandem::testing
