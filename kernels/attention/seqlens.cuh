// Which keys a query sees: trip counts and bounds. Bottom-right alignment: query i stands at position i + seqlen_k - seqlen_q.
#pragma once
#include "attention/params.hpp"
#include "attention/spec.hpp"
#include "ptx/math.cuh"
#include "ptx/platform.cuh"

namespace tandem::attention {

TANDEM_DEVICE int divide(int n, const FastDivisor& by) {
  const u32 value = static_cast<u32>(n);
  return static_cast<int>((value + ptx::multiply_high(value, by.multiplier)) >> by.shift);
}

template <ForwardSpec kSpec>
struct Seqlens {
  int seqlen_q;
  int seqlen_k;

  TANDEM_DEVICE explicit Seqlens(const ForwardParams& params) : seqlen_q(params.seqlen_q), seqlen_k(params.seqlen_k) {}

  // Keys [0, visible_keys) are seen by query `row`. Negative if it stands before the first key.
  TANDEM_DEVICE int visible_keys(int row) const {
    if constexpr (!kSpec.causal) return seqlen_k;
    const int through_diagonal = row + 1 + seqlen_k - seqlen_q;
    return through_diagonal < seqlen_k ? through_diagonal : seqlen_k;
  }

  // Key blocks that some query of the tile sees; at least one, so that every tile runs the same path (a block that nobody sees is masked).
  TANDEM_DEVICE int n_blocks(int m_block) const {
    const int visible = visible_keys(m_block * kSpec.block_m() + kSpec.block_m() - 1);
    const int blocks = (visible + kSpec.block_n - 1) / kSpec.block_n;
    return blocks > 1 ? blocks : 1;
  }

  // Blocks [0, unmasked_blocks) are seen whole by every query from `first_row` on.
  TANDEM_DEVICE int unmasked_blocks(int first_row) const {
    const int visible = visible_keys(first_row);
    return visible > 0 ? visible / kSpec.block_n : 0;
  }
};

}  // namespace tandem::attention
