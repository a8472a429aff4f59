// How wide the tiles in shared memory are: chunks of 64 columns beside each other, each [rows][width]. Plain C++20, shared with the host.
#pragma once

namespace tandem::tile {

constexpr int kChunkColumns = 64;     // 128 bytes, the widest swizzle
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
constexpr bool has_narrow_chunk(int columns) { return last_chunk_columns(columns) < kChunkColumns; }
constexpr int narrowed_columns(int columns) { return padded_columns(columns) - kChunkColumns + last_chunk_columns(columns); }

// A tile with such a last chunk: what a load of it brings, and the room that it takes.
constexpr int narrowed_bytes(int rows, int columns) { return rows * narrowed_columns(columns) * 2; }
constexpr int narrowed_tile_bytes(int rows, int columns) { return (narrowed_bytes(rows, columns) + kTileAlignment - 1) / kTileAlignment * kTileAlignment; }

}  // namespace tandem::tile
