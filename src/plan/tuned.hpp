// The measured table: which spec won for which shapes. Where no line fits, the planner's model decides.
#pragma once

#include "attention/spec.hpp"

namespace tandem {

struct TunedLine {
  int head_dim;  // tile widths that the line was measured for
  int head_dim_v;
  bool causal;
  int seqlen_below;    // serves queries x keys whose shorter side is below this many tokens; 0: any
  const char* fields;  // what differs from ForwardSpec's defaults, as parse_spec takes it
  const char* reason;  // what it beat, and by how much
};

// In order: the first line that fits is taken.
inline constexpr TunedLine kTunedForward[] = {
    {64, 64, false, 1025, "q_in_registers=true,output_stage=own", "two warpgroups start and end a short tile faster than three"},
    {64, 64, false, 0, "consumer_warpgroups=3,output_stage=own", "three warpgroups keep the exp unit fed"},
    {64, 64, true, 4097, "consumer_warpgroups=1,block_n=96,ctas_per_sm=3,turns=none,output_stage=registers",
     "three small blocks cover each other's prologue and epilogue"},
    {64, 64, true, 0, "consumer_warpgroups=3,output_stage=own", "three warpgroups keep the exp unit fed"},
    {128, 128, false, 0, "q_in_registers=true,output_stage=own", "Q in registers saves a fifth of the shared-memory reads"},
    {128, 128, true, 0, "q_in_registers=true,output_stage=own", "Q in registers saves a fifth of the shared-memory reads"},
    {256, 256, false, 0, "block_n=80", "the widest block that two stages leave room for"},
    {256, 256, true, 0, "block_n=80", "the widest block that two stages leave room for"},
};

}  // namespace tandem
