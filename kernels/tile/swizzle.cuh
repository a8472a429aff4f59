// How a tile lies in shared memory: chunks of 64 columns (128 bytes), each [rows][64] with the 128-byte swizzle that TMA writes and WGMMA
// reads: the 16-byte piece `p` of row `r` stands at piece p ^ (r % 8). A chunk starts at a multiple of 1024 bytes.
#pragma once
#include "ptx/smem_desc.cuh"

namespace tandem::tile {

constexpr int kChunkColumns = 64;
constexpr int kRowBytes = 128;

constexpr int chunks_of(int columns) { return (columns + kChunkColumns - 1) / kChunkColumns; }
constexpr int chunk_bytes(int rows) { return rows * kRowBytes; }
constexpr int tile_bytes(int rows, int columns) { return chunks_of(columns) * chunk_bytes(rows); }

// Byte offset of the 16-byte piece `piece` (0..7) of row `row` inside a chunk.
TANDEM_DEVICE u32 swizzled_offset(int row, int piece) { return static_cast<u32>(row * kRowBytes + ((piece ^ (row & 7)) << 4)); }

// Operand whose contiguous index is k (Q, K): 8 rows are 1024 bytes apart from the next 8; the leading offset is not used by this layout.
TANDEM_DEVICE ptx::SmemDescriptor descriptor_k_major(const void* tile) { return ptx::smem_descriptor_128b(tile, 16, 1024); }

// Offset of columns 16 k .. 16 k + 15 of such an operand.
template <int kRows>
constexpr u32 k_step_bytes(int k) {
  return static_cast<u32>((k / 4) * chunk_bytes(kRows) + (k % 4) * 32);
}

// Operand whose contiguous index is n (V): the leading offset goes from chunk to chunk, the stride offset from 8 rows to the next 8.
template <int kRows>
TANDEM_DEVICE ptx::SmemDescriptor descriptor_n_major(const void* tile) {
  return ptx::smem_descriptor_128b(tile, chunk_bytes(kRows), 1024);
}

// Offset of rows 16 k .. 16 k + 15 of such an operand.
constexpr u32 n_major_k_step_bytes(int k) { return static_cast<u32>(k * 16 * kRowBytes); }

}  // namespace tandem::tile
