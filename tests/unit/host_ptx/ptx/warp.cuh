#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

inline int warp_uniform(int value) { return value; }
inline u32 warp_uniform(u32 value) { return value; }
inline bool elect_one() { return true; }
inline void warp_sync() {}

}  // namespace tandem::ptx
