#include "support/layout.hpp"

#include <algorithm>

namespace tandem::testing {
namespace {

constexpr Layout kAllLayouts[] = {Layout::bshd,           Layout::bhsd,
                                  Layout::sbhd,           Layout::fused_slice,
                                  Layout::padded_rows,    Layout::odd_rows,
                                  Layout::cache_prefix,   Layout::every_second_row,
                                  Layout::misaligned,     Layout::transposed_dim,
                                  Layout::spread_dim,     Layout::expanded_heads,
                                  Layout::expanded_batch, Layout::expanded_sequence,
                                  Layout::expanded_dim,   Layout::odd_unit_strides};

// Axes from the innermost to the outermost; each stride is the extent of what lies within. An empty axis counts as one of length 1, as
// tensor libraries have it: no stride is 0.
Placement nested(const Shape& shape, const std::array<std::size_t, 4>& order) {
  Placement placement;
  std::int64_t extent = 1;
  placement.buffer_elements = 1;
  for (const std::size_t axis : order) {
    placement.stride[axis] = extent;
    extent *= std::max<std::int64_t>(shape[axis], 1);
    placement.buffer_elements *= shape[axis];
  }
  return placement;
}

constexpr std::array<std::size_t, 4> kBshd{3, 2, 1, 0};

// Contiguous, after `shape` was made longer along an axis.
Placement within(const Shape& shape, std::size_t axis, std::int64_t length) {
  Shape larger = shape;
  larger[axis] = length;
  return nested(larger, kBshd);
}

Placement expanded(const Shape& shape, std::size_t axis) {
  Placement placement = within(shape, axis, std::min<std::int64_t>(shape[axis], 1));
  placement.stride[axis] = 0;
  return placement;
}

}  // namespace

std::string_view name_of(Layout layout) {
  switch (layout) {
    case Layout::bshd: return "bshd";
    case Layout::bhsd: return "bhsd";
    case Layout::sbhd: return "sbhd";
    case Layout::fused_slice: return "fused_slice";
    case Layout::padded_rows: return "padded_rows";
    case Layout::odd_rows: return "odd_rows";
    case Layout::every_second_row: return "every_second_row";
    case Layout::cache_prefix: return "cache_prefix";
    case Layout::misaligned: return "misaligned";
    case Layout::transposed_dim: return "transposed_dim";
    case Layout::spread_dim: return "spread_dim";
    case Layout::expanded_heads: return "expanded_heads";
    case Layout::expanded_batch: return "expanded_batch";
    case Layout::expanded_sequence: return "expanded_sequence";
    case Layout::expanded_dim: return "expanded_dim";
    case Layout::odd_unit_strides: return "odd_unit_strides";
  }
  return "?";
}

std::span<const Layout> all_layouts() { return kAllLayouts; }

bool is_expanded(Layout layout) {
  return layout == Layout::expanded_heads || layout == Layout::expanded_batch || layout == Layout::expanded_sequence || layout == Layout::expanded_dim;
}

Placement place(Layout layout, const Shape& shape) {
  switch (layout) {
    case Layout::bshd: return nested(shape, kBshd);
    case Layout::bhsd: return nested(shape, {3, 1, 2, 0});
    case Layout::sbhd: return nested(shape, {3, 2, 0, 1});
    case Layout::fused_slice: {
      // Two heads of something else on the left, three on the right.
      Placement placement = within(shape, 2, shape[2] + 5);
      placement.offset = 2 * shape[3];
      return placement;
    }
    case Layout::padded_rows: return within(shape, 3, shape[3] + 8);
    case Layout::odd_rows: return within(shape, 3, shape[3] + 1);
    case Layout::every_second_row: {
      Placement placement = within(shape, 1, 2 * shape[1]);
      placement.stride[1] *= 2;
      return placement;
    }
    case Layout::cache_prefix: return within(shape, 1, shape[1] + 37);
    case Layout::misaligned: {
      Placement placement = nested(shape, kBshd);
      placement.offset = 1;
      placement.buffer_elements += 1;
      return placement;
    }
    case Layout::transposed_dim: return nested(shape, {1, 3, 2, 0});
    case Layout::spread_dim: {
      Placement placement = within(shape, 3, 3 * shape[3]);
      placement.stride[3] = 3;
      return placement;
    }
    case Layout::expanded_heads: return expanded(shape, 2);
    case Layout::expanded_batch: return expanded(shape, 0);
    case Layout::expanded_sequence: return expanded(shape, 1);
    case Layout::expanded_dim: return expanded(shape, 3);
    case Layout::odd_unit_strides: {
      Placement placement = nested(shape, kBshd);
      constexpr std::array<std::int64_t, 4> kNeverUsed{1, 3, 1'000'000'007, 5};
      for (std::size_t axis = 0; axis < 4; ++axis) {
        if (shape[axis] == 1) placement.stride[axis] = kNeverUsed[axis];
      }
      return placement;
    }
  }
  return {};
}

}  // namespace tandem::testing
