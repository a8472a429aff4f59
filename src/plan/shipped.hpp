// The kernels that ship: compiled ahead of time by `tandem compile --shipped`, held to the compile budget in CI, run in the Hopper model.
// Any other spec that budget.hpp allows is compiled at first use.
#pragma once

#include <array>
#include <cstddef>

#include "attention/budget.hpp"
#include "attention/spec.hpp"

namespace tandem {

// One line for each tile of head dims; each line ships in FP16 and BF16, full and causal.
inline constexpr ForwardSpec kShippedTiles[] = {
    {.head_dim = 64, .head_dim_v = 64, .block_n = 128, .q_in_registers = true, .output_stage = OutputStage::own},
    {.head_dim = 64, .head_dim_v = 64, .consumer_warpgroups = 3, .block_n = 128, .output_stage = OutputStage::own},
    {.head_dim = 128, .head_dim_v = 128, .block_n = 128, .q_in_registers = true, .output_stage = OutputStage::own},
    {.head_dim = 192, .head_dim_v = 128, .block_n = 128},
    {.head_dim = 256, .head_dim_v = 256, .block_n = 80},
};

inline constexpr std::size_t kShippedCount = std::size(kShippedTiles) * 4;

constexpr ForwardSpec shipped_forward(std::size_t index) {
  ForwardSpec spec = kShippedTiles[index / 4];
  spec.dtype = index % 2 == 0 ? DType::bf16 : DType::fp16;
  spec.causal = index / 2 % 2 == 1;
  return spec;
}

}  // namespace tandem
