// The kernels that ship: those of the tuned table, in FP16 and BF16. Compiled ahead of time by `tandem compile --shipped`, held to the
// compile budget in CI, run in the Hopper model. Any other spec that budget.hpp allows is compiled at first use.
#pragma once

#include <cstddef>
#include <iterator>

#include "attention/spec.hpp"
#include "plan/tuned.hpp"

namespace tandem {

// Lines whose spec no earlier line has: the same schedule may serve several ranges of lengths.
constexpr bool first_of_its_spec(std::size_t line) {
  for (std::size_t earlier = 0; earlier < line; ++earlier)
    if (kTunedForward[earlier].spec == kTunedForward[line].spec) return false;
  return true;
}

constexpr std::size_t distinct_specs() {
  std::size_t count = 0;
  for (std::size_t line = 0; line < std::size(kTunedForward); ++line) count += first_of_its_spec(line) ? 1 : 0;
  return count;
}

inline constexpr std::size_t kShippedCount = distinct_specs() * 2;

// Even: BF16, odd: FP16.
constexpr ForwardSpec shipped_forward(std::size_t index) {
  std::size_t line = 0;
  for (std::size_t distinct = 0;; ++line) {
    if (!first_of_its_spec(line)) continue;
    if (distinct++ == index / 2) break;
  }
  ForwardSpec spec = kTunedForward[line].spec;
  spec.dtype = index % 2 == 0 ? DType::bf16 : DType::fp16;
  return spec;
}

}  // namespace tandem
