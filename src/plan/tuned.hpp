// The measured table: which schedule won for which shapes. tools/sweep.py rewrites the lines from its records; where no line fits, the
// planner's model decides.
#pragma once

#include "attention/spec.hpp"

namespace tandem {

struct TunedLine {
  int head_dim, head_dim_v;  // measured with these; serves narrower ones of the same tiles
  int seqlen_below;          // serves problems whose shorter side has fewer tokens; 0: any number
  int section_mb;            // K and V of heads that are worked on together, in MiB
  const char* reason;        // what decides
  ForwardSpec spec;          // dtype as it stands serves both
};

// In order of head dims, full before causal, short before long: the first line that fits is taken.
inline constexpr TunedLine kTunedForward[] = {
    // clang-format off
    // <lines>
    {64, 64, 1, 16, "64 rows a tile reach more multiprocessors where tiles are few",
     {.head_dim = 64, .head_dim_v = 64, .consumer_warpgroups = 1, .block_n = 80, .ctas_per_sm = 3, .turns = Turns::none}},
    {64, 64, 1536, 16, "two warpgroups begin and end a short tile faster than three; the next is 7% behind",
     {.head_dim = 64, .head_dim_v = 64, .block_n = 128, .q_in_registers = true, .output_stage = OutputStage::own}},
    {64, 64, 0, 16, "three warpgroups keep the exp unit fed; Q in registers, and 96 keys leave room for it; the next is 2% behind",
     {.head_dim = 64, .head_dim_v = 64, .consumer_warpgroups = 3, .block_n = 96, .q_in_registers = true, .output_stage = OutputStage::own}},
    {64, 64, 1, 16, "64 rows a tile reach more multiprocessors where tiles are few",
     {.head_dim = 64, .head_dim_v = 64, .causal = true, .consumer_warpgroups = 1, .block_n = 80, .ctas_per_sm = 3, .turns = Turns::none}},
    {64, 64, 1536, 16, "two warpgroups begin and end a short tile faster than three; the next is 5% behind",
     {.head_dim = 64, .head_dim_v = 64, .causal = true, .block_n = 128, .q_in_registers = true, .output_stage = OutputStage::own}},
    {64, 64, 0, 16, "three warpgroups keep the exp unit fed; Q in registers, and 96 keys leave room for it; the next is 4% behind",
     {.head_dim = 64, .head_dim_v = 64, .causal = true, .consumer_warpgroups = 3, .block_n = 96, .q_in_registers = true, .output_stage = OutputStage::own}},
    {72, 72, 1536, 16, "128 rows a tile waste less on the diagonal than 192; the next is 6% behind",
     {.head_dim = 80, .head_dim_v = 72, .block_n = 128, .q_in_registers = true, .output_stage = OutputStage::own}},
    {72, 72, 0, 16, "192 rows a tile: a third fewer reads of K and V, and the exp unit fed; a third stage evens out the loads; the next is 2% behind",
     {.head_dim = 80, .head_dim_v = 72, .consumer_warpgroups = 3, .block_n = 112, .stages = 3}},
    {72, 72, 1536, 16, "128 rows a tile waste less on the diagonal than 192; the next is 8% behind",
     {.head_dim = 80, .head_dim_v = 72, .causal = true, .block_n = 128, .q_in_registers = true, .output_stage = OutputStage::own}},
    {72, 72, 0, 16, "192 rows a tile, and Q in registers: shared memory is read a quarter less, and its buffer is free for the next tile's; a third stage evens out the loads; the next is 1% behind",
     {.head_dim = 80, .head_dim_v = 72, .causal = true, .consumer_warpgroups = 3, .block_n = 96, .stages = 3, .q_in_registers = true, .output_stage = OutputStage::own}},
    {80, 80, 1536, 16, "128 rows a tile waste less on the diagonal than 192; the next is 10% behind",
     {.head_dim = 80, .head_dim_v = 80, .block_n = 128, .q_in_registers = true, .output_stage = OutputStage::own}},
    {80, 80, 0, 16, "192 rows a tile, and Q in registers: shared memory is read a quarter less, and its buffer is free for the next tile's; a third stage evens out the loads; the next is 3% behind",
     {.head_dim = 80, .head_dim_v = 80, .consumer_warpgroups = 3, .block_n = 96, .stages = 3, .q_in_registers = true, .output_stage = OutputStage::own}},
    {80, 80, 1536, 16, "128 rows a tile waste less on the diagonal than 192; the next is 8% behind",
     {.head_dim = 80, .head_dim_v = 80, .causal = true, .block_n = 128, .q_in_registers = true, .output_stage = OutputStage::own}},
    {80, 80, 0, 16, "192 rows a tile, and Q in registers: shared memory is read a quarter less, and its buffer is free for the next tile's; a third stage evens out the loads; the next is 1% behind",
     {.head_dim = 80, .head_dim_v = 80, .causal = true, .consumer_warpgroups = 3, .block_n = 96, .stages = 3, .q_in_registers = true, .output_stage = OutputStage::own}},
    {88, 88, 1536, 16, "128 rows a tile waste less on the diagonal than 192; the next is 5% behind",
     {.head_dim = 96, .head_dim_v = 96, .block_n = 128, .q_in_registers = true, .output_stage = OutputStage::own}},
    {88, 88, 0, 16, "192 rows a tile: a third fewer reads of K and V, and the exp unit fed; the next is 1% behind",
     {.head_dim = 96, .head_dim_v = 96, .consumer_warpgroups = 3, .block_n = 112}},
    {88, 88, 1536, 16, "128 rows a tile waste less on the diagonal than 192; the next is 12% behind",
     {.head_dim = 96, .head_dim_v = 96, .causal = true, .block_n = 128, .q_in_registers = true, .output_stage = OutputStage::own}},
    {88, 88, 0, 16, "192 rows a tile: a third fewer reads of K and V, and the exp unit fed; the next tile's Q comes under this one; the next is 1% behind",
     {.head_dim = 96, .head_dim_v = 96, .causal = true, .consumer_warpgroups = 3, .block_n = 96, .q_buffers = 2}},
    {96, 96, 1536, 16, "128 rows a tile waste less on the diagonal than 192; the next is 9% behind",
     {.head_dim = 96, .head_dim_v = 96, .block_n = 128, .q_in_registers = true, .output_stage = OutputStage::own}},
    {96, 96, 0, 16, "192 rows a tile: a third fewer reads of K and V, and the exp unit fed; the next is 1% behind",
     {.head_dim = 96, .head_dim_v = 96, .consumer_warpgroups = 3, .block_n = 112, .output_stage = OutputStage::own}},
    {96, 96, 1536, 16, "128 rows a tile waste less on the diagonal than 192; the next is 13% behind",
     {.head_dim = 96, .head_dim_v = 96, .causal = true, .block_n = 128, .q_in_registers = true, .output_stage = OutputStage::own}},
    {96, 96, 0, 32, "192 rows a tile: a third fewer reads of K and V, and the exp unit fed; the next is 2% behind",
     {.head_dim = 96, .head_dim_v = 96, .causal = true, .consumer_warpgroups = 3, .block_n = 96, .output_stage = OutputStage::own}},
    {112, 112, 3072, 16, "Q in registers saves a fifth of the shared-memory reads; the next is 0% behind",
     {.head_dim = 112, .head_dim_v = 112, .block_n = 128, .q_in_registers = true, .output_stage = OutputStage::own}},
    {112, 112, 0, 32, "192 rows a tile: a third fewer reads of K and V, and the exp unit fed; the next is 4% behind",
     {.head_dim = 112, .head_dim_v = 112, .consumer_warpgroups = 3, .block_n = 96}},
    {112, 112, 6144, 16, "Q in registers saves a fifth of the shared-memory reads; the next is 2% behind",
     {.head_dim = 112, .head_dim_v = 112, .causal = true, .block_n = 128, .q_in_registers = true, .output_stage = OutputStage::own}},
    {112, 112, 0, 32, "192 rows a tile: a third fewer reads of K and V, and the exp unit fed; the next is 2% behind",
     {.head_dim = 112, .head_dim_v = 112, .causal = true, .consumer_warpgroups = 3, .block_n = 96}},
    {128, 128, 0, 16, "Q in registers saves a fifth of the shared-memory reads; the next is 2% behind",
     {.head_dim = 128, .head_dim_v = 128, .block_n = 128, .q_in_registers = true, .output_stage = OutputStage::own}},
    {128, 128, 0, 16, "Q in registers saves a fifth of the shared-memory reads; the next is 2% behind",
     {.head_dim = 128, .head_dim_v = 128, .causal = true, .block_n = 128, .q_in_registers = true, .output_stage = OutputStage::own}},
    {160, 160, 3072, 16, "O leaves under the next tile, through a buffer that narrower blocks leave room for; the next is 3% behind",
     {.head_dim = 160, .head_dim_v = 160, .block_n = 80, .output_stage = OutputStage::own}},
    {160, 160, 0, 32, "96 keys divide the usual lengths; the next is 4% behind",
     {.head_dim = 160, .head_dim_v = 160, .block_n = 96}},
    {160, 160, 1536, 32, "96 keys divide the usual lengths; the next is 5% behind",
     {.head_dim = 160, .head_dim_v = 160, .causal = true, .block_n = 96}},
    {160, 160, 0, 32, "O leaves under the next tile, through a buffer that narrower blocks leave room for; the next is 5% behind",
     {.head_dim = 160, .head_dim_v = 160, .causal = true, .block_n = 80, .output_stage = OutputStage::own}},
    {192, 128, 0, 16, "128 keys divide the usual lengths; O leaves from registers to make room for them; the next is 3% behind",
     {.head_dim = 192, .head_dim_v = 128, .block_n = 128}},
    {192, 128, 12288, 16, "128 keys divide the usual lengths; O leaves from registers to make room for them; the next is 3% behind",
     {.head_dim = 192, .head_dim_v = 128, .causal = true, .block_n = 128}},
    {192, 128, 0, 16, "O leaves under the next tile, through a buffer that narrower blocks leave room for; the next is 0% behind",
     {.head_dim = 192, .head_dim_v = 128, .causal = true, .block_n = 96, .output_stage = OutputStage::own}},
    {192, 192, 0, 16, "O leaves under the next tile, through a buffer that narrower blocks leave room for; the next is 5% behind",
     {.head_dim = 192, .head_dim_v = 192, .block_n = 80, .output_stage = OutputStage::own}},
    {192, 192, 0, 32, "O leaves under the next tile, through a buffer that narrower blocks leave room for; the next is 3% behind",
     {.head_dim = 192, .head_dim_v = 192, .causal = true, .block_n = 80, .output_stage = OutputStage::own}},
    {256, 256, 0, 16, "64 keys divide the usual lengths; the next is 2% behind",
     {.head_dim = 256, .head_dim_v = 256, .block_n = 64}},
    {256, 256, 0, 16, "64 keys divide the usual lengths; the next is 6% behind",
     {.head_dim = 256, .head_dim_v = 256, .causal = true, .block_n = 64}},
    // </lines>
    // clang-format on
};

}  // namespace tandem
