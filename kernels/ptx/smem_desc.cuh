// Shared-memory matrix descriptors of WGMMA: where an operand starts and how its 8x8 core matrices are spread.
#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

enum class Swizzle : u32 { bytes_128 = 1, bytes_64 = 2, bytes_32 = 3 };

// Two words: what moves with the operand, and what its layout fixes. Kept apart so that moving along an operand is one 32-bit addition.
struct SmemDescriptor {
  u32 low;   // bits 0-13 start address, 16-29 leading offset; both in units of 16 bytes
  u32 high;  // bits 0-13 stride offset in units of 16 bytes, 30-31 the swizzle

  TANDEM_DEVICE u64 bits() const { return static_cast<u64>(high) << 32 | low; }

  // The same matrix, `bytes` further. Stays within the address field: shared memory is smaller than what the field spans.
  TANDEM_DEVICE SmemDescriptor advanced(u32 bytes) const { return {low + (bytes >> 4), high}; }
};

// The upper word.
template <Swizzle kSwizzle>
constexpr u32 descriptor_layout(u32 stride_bytes) {
  return ((stride_bytes >> 4) & 0x3fffu) | static_cast<u32>(kSwizzle) << 30;
}

template <Swizzle kSwizzle>
TANDEM_DEVICE SmemDescriptor smem_descriptor(const void* start, u32 leading_bytes, u32 stride_bytes) {
  return {(shared_address(start) & 0x3ffffu) >> 4 | ((leading_bytes >> 4) & 0x3fffu) << 16, descriptor_layout<kSwizzle>(stride_bytes)};
}

}  // namespace tandem::ptx
