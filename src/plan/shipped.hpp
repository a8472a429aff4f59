// The kernels that ship: those of the tuned table, in FP16 and BF16. Compiled ahead of time by `tandem compile --shipped`, held to the
// compile budget in CI, run in the Hopper model. Any other spec that budget.hpp allows is compiled at first use.
#pragma once

#include <cstddef>
#include <iterator>

#include "attention/spec.hpp"
#include "plan/tuned.hpp"

namespace tandem {

inline constexpr std::size_t kShippedCount = std::size(kTunedForward) * 2;

constexpr ForwardSpec shipped_forward(std::size_t index) {
  ForwardSpec spec = kTunedForward[index / 2].spec;
  spec.dtype = index % 2 == 0 ? DType::bf16 : DType::fp16;
  return spec;
}

}  // namespace tandem
