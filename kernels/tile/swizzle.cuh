// How a tile lies in shared memory: chunks (layout.hpp) of rows that TMA writes and WGMMA reads swizzled. Of a chunk of 64 columns, 128 bytes a row, the
// 16-byte piece `p` of row `r` stands at piece p ^ (r % 8): the address with bits 4-6 XORed with bits 7-9. Rows of a narrower chunk lie closer, and of these
// three bits only one (32 bytes a row) or two (64) are. A chunk starts at a multiple of 1024 bytes.
#pragma once
#include "ptx/smem_desc.cuh"
#include "tile/layout.hpp"

namespace tandem::tile {

constexpr int chunk_bytes(int rows) { return rows * kRowBytes; }

// Byte offset of the 16-byte piece `piece` (0..7) of row `row` inside a chunk.
TANDEM_DEVICE u32 swizzled_offset(int row, int piece) { return static_cast<u32>(row * kRowBytes + ((piece ^ (row & 7)) << 4)); }

// The same in a chunk whose rows have kBytes bytes.
template <int kBytes>
TANDEM_DEVICE u32 swizzled_offset_in(int row, int piece) {
  const u32 linear = static_cast<u32>(row * kBytes + piece * kPieceBytes);
  return linear ^ ((linear / 128 % (kBytes / kPieceBytes)) * kPieceBytes);
}

// Operand whose contiguous index is k (Q, K): 8 rows are 1024 bytes apart from the next 8; the leading offset is not used by this layout.
TANDEM_DEVICE ptx::SmemDescriptor descriptor_k_major(const void* tile) { return ptx::smem_descriptor<ptx::Swizzle::bytes_128>(tile, 16, 1024); }

// Offset of columns 16 k .. 16 k + 15 of such an operand.
template <int kRows>
constexpr u32 k_step_bytes(int k) {
  return static_cast<u32>((k / 4) * chunk_bytes(kRows) + (k % 4) * 32);
}

// Columns 16 k .. 16 k + 15 of such an operand with kColumns columns, of which the last chunk is narrow.
template <int kRows, int kColumns>
TANDEM_DEVICE ptx::SmemDescriptor narrowed_k_step(ptx::SmemDescriptor tile, int k) {
  constexpr int kLastRowBytes = last_chunk_columns(kColumns) * 2;
  constexpr ptx::Swizzle kLastSwizzle = kLastRowBytes == 128 ? ptx::Swizzle::bytes_128 : kLastRowBytes == 64 ? ptx::Swizzle::bytes_64 : ptx::Swizzle::bytes_32;
  ptx::SmemDescriptor step = tile.advanced(k_step_bytes<kRows>(k));
  if (k / 4 == chunks_of(kColumns) - 1) step.high = ptx::descriptor_layout<kLastSwizzle>(8 * kLastRowBytes);
  return step;
}

// Operand whose contiguous index is n (V): the leading offset goes from chunk to chunk, the stride offset from 8 rows to the next 8.
template <int kRows>
TANDEM_DEVICE ptx::SmemDescriptor descriptor_n_major(const void* tile) {
  return ptx::smem_descriptor<ptx::Swizzle::bytes_128>(tile, chunk_bytes(kRows), 1024);
}

// Offset of rows 16 k .. 16 k + 15 of such an operand.
constexpr u32 n_major_k_step_bytes(int k) { return static_cast<u32>(k * 16 * kRowBytes); }

}  // namespace tandem::tile
