// Timelines as pictures: an SVG for documents, a trace for Perfetto (ui.perfetto.dev) and chrome://tracing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "timeline_intervals.hpp"

namespace tandem::cli {

struct DrawOptions {
  std::uint64_t from = 0, cycles = 12'000;  // what the SVG shows
  std::string source;                       // whose time it is: a line under the picture
};

// The timelines under each other, on one scale.
std::string draw_svg(const std::vector<Timeline>& timelines, const DrawOptions& options);

// A process for each timeline, a thread for each lane; a nanosecond stands for a cycle.
std::string draw_trace(const std::vector<Timeline>& timelines);

}  // namespace tandem::cli
