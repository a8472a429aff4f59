// Shared-memory matrix descriptors of WGMMA: where an operand starts and how its 8x8 core matrices are spread.
#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

// Two words: what moves with the operand, and what its layout fixes. Kept apart so that moving along an operand is one 32-bit addition.
struct SmemDescriptor {
  u32 low;   // bits 0-13 start address, 16-29 leading offset; both in units of 16 bytes
  u32 high;  // bits 0-13 stride offset in units of 16 bytes; 1 in bits 30-31 is the 128-byte swizzle

  TANDEM_DEVICE u64 bits() const { return static_cast<u64>(high) << 32 | low; }

  // The same matrix, `bytes` further. Stays within the address field: shared memory is smaller than what the field spans.
  TANDEM_DEVICE SmemDescriptor advanced(u32 bytes) const { return {low + (bytes >> 4), high}; }
};

TANDEM_DEVICE SmemDescriptor smem_descriptor_128b(const void* start, u32 leading_bytes, u32 stride_bytes) {
  return {(shared_address(start) & 0x3ffffu) >> 4 | ((leading_bytes >> 4) & 0x3fffu) << 16, ((stride_bytes >> 4) & 0x3fffu) | 1u << 30};
}

}  // namespace tandem::ptx
