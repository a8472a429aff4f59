// From what a kernel noted to what its roles did when, and how well the units were used.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "attention/spec.hpp"
#include "attention/timeline_event.hpp"

namespace tandem::cli {

struct TimelineEntry {
  int role = 0;  // 0 the producer, w + 1 consumer warpgroup w
  TimelineEvent event = TimelineEvent::none;
  std::uint64_t cycle = 0;  // since the first event of the block
};

// The entries of one block, role by role, each in the order of time. `words`: the buffer of attention/timeline_event.hpp.
std::vector<TimelineEntry> decode_timeline(std::span<const std::uint64_t> words, int block);

enum class Activity { stage_wait, load_k, load_v, qk, pv, softmax, store, count };

struct Interval {
  Activity activity;
  int role;
  int tile, step;  // counted from 0, in the order of time
  std::uint64_t begin, end;
};

// Loads and waits of the producer; and of a consumer, QK and PV from the moment that it may issue them to the moment that it has seen their
// result, its softmax between S and P, and what follows the last PV of a tile until O is on its way.
std::vector<Interval> intervals_of(const std::vector<TimelineEntry>& entries, const ForwardSpec& spec);

struct TimelineFigures {
  int tiles = 0, steps = 0;      // steps of all warpgroups together
  double step_cycles = 0;        // from softmax to softmax of a warpgroup, the median
  double step_tensor_share = 0;  // of those cycles that the tensor core multiplies for all warpgroups
  double softmax_cycles = 0;     // the median
  double total_cycles = 0;       // of the block
  double total_tensor_share = 0;
};

TimelineFigures figures_of(const std::vector<Interval>& intervals, const ForwardSpec& spec);

// What one run of one schedule left.
struct Timeline {
  std::string name, text;
  ForwardSpec spec;
  std::vector<TimelineEntry> entries;
  std::vector<Interval> intervals;
  TimelineFigures figures;
};

}  // namespace tandem::cli
