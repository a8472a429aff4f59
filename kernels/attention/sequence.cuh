// How TMA reaches the rows of a tile. Dense: the tensor map ends where the sequences end, and what a box holds beyond reads as zero. Ragged:
// sequences end anywhere, and what follows belongs to another one or may be NaN; a map of five dimensions
//
//   address = base - rows * stride + (row + end) * stride + ...,   row < rows
//
// lets a box start so that its part past the sequence is past the extent of `row`: row i of a sequence of `length` rows that ends at `end`
// has the coordinates (rows - length + i, end). So no kernel needs a map of its own for each sequence, and none masks V.
#pragma once
#include "attention/storage.cuh"
#include "ptx/tma.cuh"

namespace tandem::attention {

// The rows of a sequence along one side, as coordinates.
struct SequenceRows {
  int first;  // coordinate of row 0; 0 where dense
  int end;
  int batch;
};

template <ForwardSpec kSpec>
TANDEM_DEVICE SequenceRows query_rows(const ForwardParams& params, const TileInfo& tile) {
  if constexpr (kSpec.ragged) return {params.seqlen_q - tile.seqlen_q, tile.q_end, tile.batch};
  return {0, 0, tile.batch};
}

template <ForwardSpec kSpec>
TANDEM_DEVICE SequenceRows key_rows(const ForwardParams& params, const TileInfo& tile) {
  if constexpr (kSpec.ragged) return {params.seqlen_k - tile.seqlen_k, tile.k_end, tile.k_batch};
  return {0, 0, tile.batch};
}

// Those that the producer loads from, beginning with `first_block`. A tile whose queries see no key visits that block all the same, and all of it is
// masked; but it may lie outside the tensor. Of such a box TMA reads the beginning of the map, which is memory only where the map begins with the
// tensor; here it begins `rows` before it. So the first rows of the tensor are loaded instead.
template <ForwardSpec kSpec>
TANDEM_DEVICE SequenceRows loaded_key_rows(const ForwardParams& params, const TileInfo& tile, int first_block) {
  if constexpr (kSpec.ragged)
    if (first_block * kSpec.block_n >= tile.seqlen_k) return {-first_block * kSpec.block_n, params.seqlen_k, 0};
  return key_rows<kSpec>(params, tile);
}

template <ForwardSpec kSpec>
TANDEM_DEVICE void load_rows(void* destination, const TensorMap& map, ptx::Barrier& barrier, int column, const SequenceRows& rows, int row, int head,
                             ptx::CacheHint hint) {
  if constexpr (kSpec.ragged)
    ptx::tma_load_5d(destination, map, barrier, column, rows.first + row, head, rows.end, rows.batch, hint);
  else
    ptx::tma_load_4d(destination, map, barrier, column, row, head, rows.batch, hint);
}

template <ForwardSpec kSpec>
TANDEM_DEVICE void store_rows(const TensorMap& map, const void* source, int column, const SequenceRows& rows, int row, int head) {
  if constexpr (kSpec.ragged)
    ptx::tma_store_5d(map, source, column, rows.first + row, head, rows.end, rows.batch);
  else
    ptx::tma_store_4d(map, source, column, row, head, rows.batch);
}

}  // namespace tandem::attention
