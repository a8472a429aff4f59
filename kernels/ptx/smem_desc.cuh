// Shared-memory matrix descriptors of WGMMA: where an operand starts and how its 8x8 core matrices are spread.
#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

// Fields in units of 16 bytes: start address bits 0-13, leading offset 16-29, stride offset 32-45; 1 in bits 62-63 is the 128-byte swizzle.
TANDEM_DEVICE u64 smem_descriptor_128b(const void* start, u32 leading_bytes, u32 stride_bytes) {
  return static_cast<u64>((shared_address(start) & 0x3ffffu) >> 4) | static_cast<u64>((leading_bytes >> 4) & 0x3fffu) << 16 |
         static_cast<u64>((stride_bytes >> 4) & 0x3fffu) << 32 | 1ull << 62;
}

// The same matrix, `bytes` further. Stays within the address field: shared memory is smaller than what the field spans.
TANDEM_DEVICE u64 smem_descriptor_advance(u64 descriptor, u32 bytes) { return descriptor + (bytes >> 4); }

}  // namespace tandem::ptx
