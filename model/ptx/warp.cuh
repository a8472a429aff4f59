// Warp-wide exchange. All 32 lanes take part in every call; only warp_sync orders memory.
#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

TANDEM_DEVICE int warp_uniform(int value) { return static_cast<int>(device::shuffle(static_cast<u32>(value), 0)); }
TANDEM_DEVICE u32 warp_uniform(u32 value) { return device::shuffle(value, 0); }

// Floats are exchanged to be reduced, words to be moved: the next instruction needs the one and not the other.
TANDEM_DEVICE float shuffle_xor(float value, int lane_mask) {
  TANDEM_COUNT(reduction);
  return __builtin_bit_cast(float, device::shuffle_xor(__builtin_bit_cast(u32, value), lane_mask));
}
TANDEM_DEVICE u32 shuffle_xor(u32 value, int lane_mask) { return device::shuffle_xor(value, lane_mask); }

TANDEM_DEVICE float shuffle(float value, int source) { return __builtin_bit_cast(float, device::shuffle(__builtin_bit_cast(u32, value), source)); }

TANDEM_DEVICE bool warp_any(bool predicate) { return device::warp_any(predicate); }
TANDEM_DEVICE void warp_sync() { device::warp_sync(); }
TANDEM_DEVICE bool elect_one() { return device::elect_one(); }

}  // namespace tandem::ptx
