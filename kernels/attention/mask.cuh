// Masks select: a score that is not seen becomes -inf, whatever it was.
#pragma once
#include "attention/seqlens.cuh"
#include "ptx/math.cuh"
#include "tile/fragment.cuh"

namespace tandem::attention {

template <ForwardSpec kSpec>
struct Mask {
  // Of each row of this thread: keys [first, end) are seen, less the thread's first column.
  int end[tile::kRowsOfThread];
  int first[kSpec.local ? tile::kRowsOfThread : 1] = {};

  TANDEM_DEVICE Mask(const Seqlens<kSpec>& seqlens, int first_row_of_thread, int lane) {
#pragma unroll
    for (int row = 0; row < tile::kRowsOfThread; ++row) {
      end[row] = seqlens.end_key(first_row_of_thread + 8 * row) - 2 * (lane % 4);
      if constexpr (kSpec.local) first[row] = seqlens.first_key(first_row_of_thread + 8 * row) - 2 * (lane % 4);
    }
  }

  // A block that the right end cuts, and perhaps the left one too.
  TANDEM_DEVICE void apply_right(float (&r_scores)[kSpec.block_n / 2], int n_block) const {
#pragma unroll
    for (int row = 0; row < tile::kRowsOfThread; ++row) {
      const int bound = end[row] - n_block * kSpec.block_n;
#pragma unroll
      for (int e = 0; e < kSpec.block_n / 4; ++e)
        if (tile::accumulator_column(e) >= bound) r_scores[tile::accumulator_index(row, e)] = -ptx::infinity();
    }
    if constexpr (kSpec.local) apply_left(r_scores, n_block);
  }

  // A block that only the left end cuts.
  TANDEM_DEVICE void apply_left(float (&r_scores)[kSpec.block_n / 2], int n_block) const {
#pragma unroll
    for (int row = 0; row < tile::kRowsOfThread; ++row) {
      const int least = first[row] - n_block * kSpec.block_n;
#pragma unroll
      for (int e = 0; e < kSpec.block_n / 4; ++e)
        if (tile::accumulator_column(e) < least) r_scores[tile::accumulator_index(row, e)] = -ptx::infinity();
    }
  }
};

}  // namespace tandem::attention
