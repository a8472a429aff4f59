// 8x8 matrices between shared memory and registers, and global accesses of a stated width, each checked against the tensors of the call.
#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

TANDEM_DEVICE void ldmatrix_x4(u32 (&registers)[4], u32 row_address) { device::ldmatrix_x4(registers, row_address); }

TANDEM_DEVICE void stmatrix_x4(u32 row_address, u32 r0, u32 r1, u32 r2, u32 r3) { device::stmatrix_x4(row_address, r0, r1, r2, r3); }

TANDEM_DEVICE u32 load_global_4b(const void* source) {
  u32 word;
  device::load_global(source, &word, 4);
  return word;
}

TANDEM_DEVICE float load_global_or(const float* source, float otherwise) {
  float value = otherwise;
  if (source != nullptr) device::load_global(source, &value, 4);
  return value;
}

TANDEM_DEVICE void store_global_4b(void* destination, u32 word) { device::store_global(destination, &word, 4); }

TANDEM_DEVICE void store_global_16b(void* destination, u32 w0, u32 w1, u32 w2, u32 w3) {
  const u32 words[4] = {w0, w1, w2, w3};
  device::store_global(destination, words, 16);
}

TANDEM_DEVICE void store_global(float* destination, float value) { device::store_global(destination, &value, 4); }

}  // namespace tandem::ptx
