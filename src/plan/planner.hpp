// Problem -> Plan, without a GPU: which kernel, on what grid, and why.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "attention/spec.hpp"
#include "common/tensor.hpp"
#include "plan/launch.hpp"
#include "tandem/result.hpp"

namespace tandem {

// What a plan needs to know of a device. The default is an H200.
struct DeviceShape {
  int multiprocessors = 132;
  std::int64_t section_bytes = 32ll << 20;  // K and V of heads that are worked on together: what stays in the L2 cache beside Q and O
};

struct ForwardPlan {
  ForwardSpec spec;
  LaunchGeometry geometry;
  std::string reason;  // a sentence
  bool tuned = false;  // from the measured table; else chosen by the model
};

// `override_text` (as parse_spec takes it) changes fields of the chosen spec: for measurements. Empty: none.
Result<ForwardPlan> plan_forward(const ForwardProblem& asked, const DeviceShape& device, std::string_view override_text = {});

// Why this kernel cannot serve the problem; empty if it can.
std::string unsupported_reason(const ForwardProblem& problem);

// The tile width that serves a head dim: the next multiple of 16, which is the K of an instruction.
constexpr int tile_width(std::int64_t head_dim) { return static_cast<int>((head_dim + 15) / 16 * 16); }
// Of head_dim_v: a multiple of 8, the step of an instruction's N. But PV is faster by 32 columns beside those of whole chunks of 64 than by 24:
// measured, 7 % at 88.
constexpr int tile_width_v(std::int64_t head_dim_v) {
  const int width = head_dim_v < 16 ? 16 : static_cast<int>((head_dim_v + 7) / 8 * 8);
  return width > 64 && width % 64 == 24 ? width + 8 : width;
}

constexpr int kMostRows = 192;  // of a tile

// Chosen by the model of a tile's time (roofline.hpp) among all specs that the budget allows with tiles of at most `most_rows` queries; depends on lengths only
// by whether they are short.
ForwardSpec model_spec(const ForwardProblem& asked, const DeviceShape& device, int most_rows = kMostRows);

}  // namespace tandem
