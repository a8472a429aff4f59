#pragma once
#include <limits>

#include "ptx/platform.cuh"

namespace tandem::ptx {

inline u32 multiply_high(u32 a, u32 b) { return static_cast<u32>((static_cast<u64>(a) * b) >> 32); }
inline float infinity() { return std::numeric_limits<float>::infinity(); }

}  // namespace tandem::ptx
