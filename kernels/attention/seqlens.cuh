// Which keys a query sees: trip counts and bounds. Bottom-right alignment: query i stands at position i + seqlen_k - seqlen_q.
#pragma once
#include "attention/params.hpp"
#include "attention/spec.hpp"
#include "attention/storage.cuh"
#include "ptx/math.cuh"
#include "ptx/platform.cuh"

namespace tandem::attention {

TANDEM_DEVICE int divide(int n, const FastDivisor& by) {
  const u32 value = static_cast<u32>(n);
  return static_cast<int>((value + ptx::multiply_high(value, by.multiplier)) >> by.shift);
}

// Of the sequence that a tile belongs to. Both ends of the visible keys rise with the query.
template <ForwardSpec kSpec>
struct Seqlens {
  const ForwardParams& params;
  int seqlen_q;
  int seqlen_k;

  TANDEM_DEVICE Seqlens(const ForwardParams& p, const TileInfo& tile)
      : params(p), seqlen_q(kSpec.ragged ? tile.seqlen_q : p.seqlen_q), seqlen_k(kSpec.ragged ? tile.seqlen_k : p.seqlen_k) {}

  // Keys [first_key, end_key) are seen by query `row`. Empty if it stands before the first key.
  TANDEM_DEVICE int first_key(int row) const {
    if constexpr (!kSpec.local) return 0;
    const int position = row + seqlen_k - seqlen_q;
    return larger(larger(position - params.window_left, 0), position < 0 ? 0 : chunk_of(position));
  }
  TANDEM_DEVICE int end_key(int row) const {
    if constexpr (!kSpec.causal && !kSpec.local) return seqlen_k;
    const int position = row + seqlen_k - seqlen_q;
    int end = smaller(kSpec.causal ? position + 1 : position + params.window_right + 1, seqlen_k);
    if constexpr (kSpec.local) {
      if (params.chunk.divisor != 0) {
        const int chunk = position < 0 ? 0 : chunk_of(position);
        end = position < 0 ? smaller(end, 0) : chunk + smaller(end - chunk, params.chunk.divisor);
      }
    }
    return end;
  }

  // Key blocks [first_block, end_block) are seen by some query of the tile; at least one, so that every tile runs the same path (a block
  // that nobody sees is masked).
  TANDEM_DEVICE int first_block(int m_block) const { return first_key(m_block * kSpec.block_m()) / kSpec.block_n; }
  TANDEM_DEVICE int end_block(int m_block) const {
    const int end = (end_key(m_block * kSpec.block_m() + kSpec.block_m() - 1) + kSpec.block_n - 1) / kSpec.block_n;
    const int least = first_block(m_block) + 1;
    return end > least ? end : least;
  }

  // Blocks [first_whole, end_whole) are seen whole by each of the 64 queries from `row` on, and by the time they are reached from the end each
  // has met a key: so the block in which the mask of the first query ends is left out, even where it ends with the block.
  TANDEM_DEVICE int first_whole(int row) const { return (first_key(row + 63) + kSpec.block_n - 1) / kSpec.block_n; }
  TANDEM_DEVICE int end_whole(int row) const {
    const int end = kSpec.causal || kSpec.local ? end_key(row) - 1 : end_key(row);
    return end > 0 ? end / kSpec.block_n : 0;
  }

 private:
  TANDEM_DEVICE static int smaller(int a, int b) { return a < b ? a : b; }
  TANDEM_DEVICE static int larger(int a, int b) { return a > b ? a : b; }
  // First position of the attention chunk that a position lies in; 0 without chunks.
  TANDEM_DEVICE int chunk_of(int position) const { return params.chunk.divisor == 0 ? 0 : divide(position, params.chunk) * params.chunk.divisor; }
};

}  // namespace tandem::attention
