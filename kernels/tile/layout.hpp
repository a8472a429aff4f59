// How wide the tiles in shared memory are: chunks of 64 columns beside each other, each [rows][width]. Plain C++20, shared with the host.
//
// A load brings the columns of the tensor and no more. Zeros that TMA fills in beside them cost power, up to 6 % of the clock, most at head
// dim 72 (docs/worklog.md). What a tile has beyond them is zeroed once (storage.cuh).
#pragma once

namespace tandem::tile {

constexpr int kChunkColumns = 64;  // of a whole chunk
constexpr int kRowBytes = 128;     // of it: the widest swizzle
constexpr int kPieceBytes = 16;    // what a swizzle moves: a row's columns by eights
constexpr int kPieceColumns = 8;
constexpr int kTileAlignment = 1024;  // bytes: what the widest swizzle repeats after

constexpr int chunks_of(int columns) { return (columns + kChunkColumns - 1) / kChunkColumns; }
constexpr int padded_columns(int columns) { return chunks_of(columns) * kChunkColumns; }

// A tile of whole chunks. V has to be one: a WGMMA reads it across chunks, which are alike then.
constexpr int tile_bytes(int rows, int columns) { return rows * padded_columns(columns) * 2; }

// K is read 16 columns at a time, so its last chunk need be no wider than what is left of them: 16, 32 or 64, which are the swizzles that there are.
constexpr int last_chunk_columns(int columns) {
  const int left = columns - (chunks_of(columns) - 1) * kChunkColumns;
  return left <= 16 ? 16 : left <= 32 ? 32 : kChunkColumns;
}
constexpr int narrowed_columns(int columns) { return padded_columns(columns) - kChunkColumns + last_chunk_columns(columns); }

// A tile with such a last chunk.
constexpr int narrowed_tile_bytes(int rows, int columns) {
  return (rows * narrowed_columns(columns) * 2 + kTileAlignment - 1) / kTileAlignment * kTileAlignment;
}

}  // namespace tandem::tile
