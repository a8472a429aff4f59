// Elements of tensors as numbers: exact on the way in, rounded to nearest even once on the way out.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tandem/tandem.hpp"

namespace tandem::cli {

inline float float_of_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

inline float float_of_fp16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu, fraction = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;  // zero or subnormal
  return sign != 0 ? -magnitude : magnitude;
}

// A binary float of 16 bits: `fraction_bits` behind the point, smallest normal exponent `min_exponent`.
template <int fraction_bits, int min_exponent>
constexpr std::uint16_t narrow(double value) {
  constexpr std::uint64_t kInfinity = ((1ull << (15 - fraction_bits)) - 1) << fraction_bits;
  const auto all_bits = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t sign = all_bits >> 63 << 15, magnitude = all_bits & ~(1ull << 63);
  const int exponent = static_cast<int>(magnitude >> 52) - 1023;
  std::uint64_t result = kInfinity;
  if (exponent == 1024) {
    if ((magnitude & ((1ull << 52) - 1)) != 0) result |= 1ull << (fraction_bits - 1);  // NaN stays NaN
  } else {
    const int shift = 52 - fraction_bits + std::max(min_exponent - exponent, 0);
    const std::uint64_t significand = (magnitude & ((1ull << 52) - 1)) | 1ull << 52;
    // Half a unit in the last place, less a bit where that place is even: ties go to even. A carry moves into the exponent by itself.
    const std::uint64_t units = shift > 53 ? 0 : (significand + (1ull << (shift - 1)) - 1 + (significand >> shift & 1)) >> shift;
    result = std::min(units + (static_cast<std::uint64_t>(std::max(exponent - min_exponent, 0)) << fraction_bits), kInfinity);
  }
  return static_cast<std::uint16_t>(sign | result);
}

constexpr std::uint16_t fp16_of(double value) { return narrow<10, -14>(value); }
constexpr std::uint16_t bf16_of(double value) { return narrow<7, -126>(value); }

// `value` as an element of that type holds it.
inline double rounded(double value, DataType type) {
  switch (type) {
    case DataType::fp16: return float_of_fp16(fp16_of(value));
    case DataType::bf16: return float_of_bf16(bf16_of(value));
    case DataType::fp32: return static_cast<float>(value);
  }
  return value;
}

inline double load_element(const std::byte* address, DataType type) {
  std::uint16_t half = 0;
  float single = 0;
  switch (type) {
    case DataType::fp16: std::memcpy(&half, address, 2); return float_of_fp16(half);
    case DataType::bf16: std::memcpy(&half, address, 2); return float_of_bf16(half);
    case DataType::fp32: std::memcpy(&single, address, 4); return single;
  }
  return 0;
}

inline void store_element(std::byte* address, double value, DataType type) {
  if (type == DataType::fp32) {
    const auto single = static_cast<float>(value);
    std::memcpy(address, &single, 4);
    return;
  }
  const std::uint16_t half = type == DataType::fp16 ? fp16_of(value) : bf16_of(value);
  std::memcpy(address, &half, 2);
}

}  // namespace tandem::cli
