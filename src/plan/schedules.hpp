// Three schedules of one tile, for `tandem timeline`: what the shipped kernel gains, step by step. Each notes a timeline.
#pragma once

#include "attention/spec.hpp"
#include "plan/tuned.hpp"

namespace tandem {

struct Schedule {
  const char* name;
  const char* text;
  ForwardSpec spec;
};

constexpr int kScheduleHeadDim = 128;

// The shipped kernel for long sequences, but for these fields.
constexpr ForwardSpec schedule_spec(int consumer_warpgroups, bool overlap, Turns turns) {
  ForwardSpec spec;
  for (const TunedLine& line : kTunedForward)
    if (line.seqlen_below == 0 && line.spec.head_dim == kScheduleHeadDim && line.spec.head_dim_v == kScheduleHeadDim && !line.spec.causal) spec = line.spec;
  spec.consumer_warpgroups = consumer_warpgroups;
  spec.overlap = overlap;
  spec.turns = turns;
  spec.timeline = true;
  return spec;
}

inline constexpr Schedule kSchedules[] = {
    {"in order", "one consumer warpgroup: multiply, softmax, multiply", schedule_spec(1, false, Turns::none)},
    {"two warpgroups", "each in order; while one is in its softmax the other may multiply", schedule_spec(2, false, Turns::none)},
    {"ping-pong", "they multiply in turn, and PV runs beside the next softmax: the shipped kernel", schedule_spec(2, true, Turns::gemm_issue)},
};

}  // namespace tandem
