// Kernels with masks and for ragged batches that the model holds: which combination a user asks for is not known before, and the compiler
// makes it then. A mask with a window serves causal problems too, so these are enough for every problem whose head dims fit.
#pragma once

#include <cstddef>
#include <iterator>

#include "attention/spec.hpp"

namespace tandem::model {

struct MaskedKind {
  bool causal, local, softcap, ragged;
};

inline constexpr MaskedKind kMaskedKinds[] = {
    {false, true, false, false}, {true, true, false, false}, {true, false, true, false}, {false, true, true, false},
    {false, false, false, true}, {true, false, false, true}, {false, true, false, true}, {false, true, true, true},
};

struct MaskedTile {
  DType dtype;
  int head_dim, head_dim_v, block_n;
  bool q_in_registers;
  OutputStage output_stage;
};

inline constexpr MaskedTile kMaskedTiles[] = {
    {DType::bf16, 64, 64, 96, true, OutputStage::own},          {DType::bf16, 128, 128, 96, true, OutputStage::own},
    {DType::bf16, 256, 256, 64, false, OutputStage::registers}, {DType::fp16, 64, 64, 96, true, OutputStage::own},
    {DType::fp16, 256, 256, 64, false, OutputStage::registers}, {DType::bf16, 80, 80, 64, false, OutputStage::registers},
};

inline constexpr std::size_t kMaskedCount = std::size(kMaskedKinds) * std::size(kMaskedTiles);

// Small windowed blocks, three a multiprocessor.
constexpr ForwardSpec small_windowed_blocks(bool causal) {
  ForwardSpec spec{.head_dim = 64, .head_dim_v = 64, .causal = causal, .local = true, .consumer_warpgroups = 1, .block_n = 48, .ctas_per_sm = 3};
  spec.q_in_registers = true;
  spec.turns = Turns::none;
  spec.output_stage = OutputStage::own;
  return spec;
}

// The odd ones: V tiles that are no multiple of 16 wide, and small blocks.
inline constexpr ForwardSpec kOddTiles[] = {
    {.head_dim = 80, .head_dim_v = 72, .consumer_warpgroups = 3, .block_n = 112, .output_stage = OutputStage::own},
    {.dtype = DType::fp16, .head_dim = 128, .head_dim_v = 120, .causal = true, .block_n = 128, .q_in_registers = true, .output_stage = OutputStage::own},
    {.head_dim = 96, .head_dim_v = 88, .causal = true, .block_n = 64},
    small_windowed_blocks(false),
    small_windowed_blocks(true),
};

constexpr ForwardSpec masked_forward(std::size_t index) {
  const MaskedKind& kind = kMaskedKinds[index % std::size(kMaskedKinds)];
  const MaskedTile& tile = kMaskedTiles[index / std::size(kMaskedKinds)];
  ForwardSpec spec;
  spec.dtype = tile.dtype;
  spec.head_dim = tile.head_dim;
  spec.head_dim_v = tile.head_dim_v;
  spec.causal = kind.causal;
  spec.local = kind.local;
  spec.softcap = kind.softcap;
  spec.ragged = kind.ragged;
  spec.block_n = tile.block_n;
  spec.q_in_registers = tile.q_in_registers;
  spec.output_stage = tile.output_stage;
  return spec;
}

}  // namespace tandem::model
