// The measured table: which schedule won for which shapes. tools/sweep.py rewrites the lines from its records; where no line fits, the
// planner's model decides.
#pragma once

#include "attention/spec.hpp"

namespace tandem {

struct TunedLine {
  int seqlen_below;    // serves problems whose shorter side has fewer tokens; 0: any number
  int section_mb;      // K and V of heads that are worked on together, in MiB
  const char* reason;  // what decides
  ForwardSpec spec;    // dtype as it stands serves both
};

// In order of head dims, full before causal, short before long: the first line that fits is taken.
inline constexpr TunedLine kTunedForward[] = {
    // clang-format off
    // <lines>
    {768, 16, "two warpgroups begin and end a short tile faster than three",
     {.head_dim = 64, .head_dim_v = 64, .block_n = 128, .q_in_registers = true, .output_stage = OutputStage::own}},
    {1536, 16, "three small blocks cover each other's prologue and epilogue",
     {.head_dim = 64, .head_dim_v = 64, .consumer_warpgroups = 1, .block_n = 96, .ctas_per_sm = 3, .turns = Turns::none}},
    {0, 16, "three warpgroups keep the exp unit fed",
     {.head_dim = 64, .head_dim_v = 64, .consumer_warpgroups = 3, .block_n = 128, .output_stage = OutputStage::own}},
    {768, 32, "four small blocks cover each other's prologue and epilogue",
     {.head_dim = 64, .head_dim_v = 64, .causal = true, .consumer_warpgroups = 1, .block_n = 48, .ctas_per_sm = 4, .turns = Turns::none}},
    {6144, 32, "three small blocks cover each other's prologue and epilogue",
     {.head_dim = 64, .head_dim_v = 64, .causal = true, .consumer_warpgroups = 1, .block_n = 96, .ctas_per_sm = 3, .turns = Turns::none}},
    {0, 32, "three warpgroups keep the exp unit fed",
     {.head_dim = 64, .head_dim_v = 64, .causal = true, .consumer_warpgroups = 3, .block_n = 128, .output_stage = OutputStage::own}},
    {0, 16, "192 rows a tile: a third fewer reads of K and V, and the exp unit fed",
     {.head_dim = 80, .head_dim_v = 80, .consumer_warpgroups = 3, .block_n = 112, .output_stage = OutputStage::own}},
    {0, 32, "192 rows a tile: a third fewer reads of K and V, and the exp unit fed",
     {.head_dim = 80, .head_dim_v = 80, .causal = true, .consumer_warpgroups = 3, .block_n = 112, .output_stage = OutputStage::own}},
    {0, 16, "192 rows a tile: a third fewer reads of K and V, and the exp unit fed",
     {.head_dim = 96, .head_dim_v = 96, .consumer_warpgroups = 3, .block_n = 112, .turns = Turns::none}},
    {6144, 32, "128 rows a tile waste less on the diagonal than 192",
     {.head_dim = 96, .head_dim_v = 96, .causal = true, .block_n = 128, .q_in_registers = true, .output_stage = OutputStage::own}},
    {0, 32, "192 rows a tile: a third fewer reads of K and V, and the exp unit fed",
     {.head_dim = 96, .head_dim_v = 96, .causal = true, .consumer_warpgroups = 3, .block_n = 112, .turns = Turns::none}},
    {0, 16, "Q in registers saves a fifth of the shared-memory reads",
     {.head_dim = 112, .head_dim_v = 112, .block_n = 128, .q_in_registers = true, .output_stage = OutputStage::own}},
    {0, 16, "Q in registers saves a fifth of the shared-memory reads",
     {.head_dim = 112, .head_dim_v = 112, .causal = true, .block_n = 128, .q_in_registers = true, .output_stage = OutputStage::own}},
    {0, 16, "Q in registers saves a fifth of the shared-memory reads",
     {.head_dim = 128, .head_dim_v = 128, .block_n = 128, .q_in_registers = true, .output_stage = OutputStage::own}},
    {0, 16, "Q in registers saves a fifth of the shared-memory reads",
     {.head_dim = 128, .head_dim_v = 128, .causal = true, .block_n = 128, .q_in_registers = true, .output_stage = OutputStage::own}},
    {6144, 16, "96 keys divide the usual lengths",
     {.head_dim = 160, .head_dim_v = 160, .block_n = 96}},
    {0, 16, "the widest block that shared memory leaves room for",
     {.head_dim = 160, .head_dim_v = 160, .block_n = 112}},
    {6144, 32, "96 keys divide the usual lengths",
     {.head_dim = 160, .head_dim_v = 160, .causal = true, .block_n = 96}},
    {0, 32, "the widest block that shared memory leaves room for",
     {.head_dim = 160, .head_dim_v = 160, .causal = true, .block_n = 112}},
    {0, 16, "128 keys divide the usual lengths; O leaves from registers to make room for them",
     {.head_dim = 192, .head_dim_v = 128, .block_n = 128}},
    {0, 32, "128 keys divide the usual lengths; O leaves from registers to make room for them",
     {.head_dim = 192, .head_dim_v = 128, .causal = true, .block_n = 128}},
    {0, 16, "96 keys divide the usual lengths; 112 are no faster",
     {.head_dim = 192, .head_dim_v = 192, .block_n = 96}},
    {0, 32, "96 keys divide the usual lengths; 112 are no faster",
     {.head_dim = 192, .head_dim_v = 192, .causal = true, .block_n = 96}},
    {6144, 32, "64 keys divide the usual lengths; without turns the two warpgroups find their own rhythm",
     {.head_dim = 256, .head_dim_v = 256, .block_n = 64, .turns = Turns::none}},
    {0, 32, "the widest block that two stages leave room for",
     {.head_dim = 256, .head_dim_v = 256, .block_n = 80}},
    {3072, 32, "64 keys divide the usual lengths; without turns the two warpgroups find their own rhythm",
     {.head_dim = 256, .head_dim_v = 256, .causal = true, .block_n = 64, .turns = Turns::none}},
    {0, 32, "64 keys divide the usual lengths",
     {.head_dim = 256, .head_dim_v = 256, .causal = true, .block_n = 64}},
    // </lines>
    // clang-format on
};

}  // namespace tandem
