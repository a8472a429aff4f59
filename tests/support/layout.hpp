// Ways in which a tensor may lie in memory.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "common/tensor.hpp"

namespace tandem::testing {

using Shape = std::array<std::int64_t, 4>;  // (batch, seqlen, heads, dim)

enum class Layout {
  bshd,               // contiguous
  bhsd,               // contiguous as (batch, heads, seqlen, dim), transposed
  sbhd,               // contiguous as (seqlen, batch, heads, dim), transposed
  fused_slice,        // one of several projections side by side in each token
  padded_rows,        // 8 elements of padding after each head's row
  odd_rows,           // 1 element of padding: rows are not multiples of 16 bytes
  every_second_row,   // tokens 0, 2, 4 ... of a longer tensor
  cache_prefix,       // the first tokens of a longer cache
  misaligned,         // contiguous, but starts one element into the buffer
  transposed_dim,     // seqlen is the innermost axis
  spread_dim,         // elements of a row three apart
  expanded_heads,     // stride 0: all heads are one
  expanded_batch,     // stride 0: all batch entries are one
  expanded_sequence,  // stride 0: all tokens are one
  expanded_dim,       // stride 0: all elements of a row are one
  odd_unit_strides,   // axes of length 1 have strides that would be illegal if they were used
};

std::string_view name_of(Layout layout);
std::span<const Layout> all_layouts();

// An expanded layout repeats values and so cannot hold arbitrary ones, nor be written to.
bool is_expanded(Layout layout);

struct Placement {
  std::int64_t buffer_elements = 0;
  std::int64_t offset = 0;
  std::array<std::int64_t, 4> stride{};

  std::int64_t element(std::int64_t b, std::int64_t s, std::int64_t h, std::int64_t d) const {
    return offset + b * stride[0] + s * stride[1] + h * stride[2] + d * stride[3];
  }
};

Placement place(Layout layout, const Shape& shape);

}  // namespace tandem::testing
