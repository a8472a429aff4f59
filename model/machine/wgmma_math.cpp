#include "machine/wgmma_math.hpp"

#include <bit>
#include <cstring>

#include "machine/multiversion.hpp"

namespace tandem::model {
namespace {

constexpr int kMaxN = 256;
constexpr int kK = 16;

inline float widen_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

// Exponent and mantissa moved into place, then the exponent's bias corrected by a product, which also normalises subnormals.
inline float widen_fp16(std::uint16_t bits) {
  const std::uint32_t magnitude = (bits & 0x7fffu) << 13;
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
  const std::uint32_t special = magnitude | 0x7f800000u;  // infinity and NaN
  const std::uint32_t result = (magnitude & 0x0f800000u) == 0x0f800000u ? special : std::bit_cast<std::uint32_t>(scaled);
  return std::bit_cast<float>(result | sign);
}

}  // namespace

TANDEM_MULTIVERSION void multiply_accumulate(float* __restrict d, const float* __restrict a, const float* __restrict b, int n) {
  for (int row = 0; row < 16; ++row) {
    float* const d_row = d + row * n;
    for (int k = 0; k < kK; k += 4) {
      const float a0 = a[row * kK + k], a1 = a[row * kK + k + 1], a2 = a[row * kK + k + 2], a3 = a[row * kK + k + 3];
      const float *b0 = b + k * n, *b1 = b0 + n, *b2 = b1 + n, *b3 = b2 + n;
      for (int column = 0; column < n; ++column) d_row[column] = (((d_row[column] + a0 * b0[column]) + a1 * b1[column]) + a2 * b2[column]) + a3 * b3[column];
    }
  }
}

TANDEM_MULTIVERSION void widen(float* __restrict out, const std::uint16_t* __restrict values, int count, OperandType type) {
  if (type == OperandType::bf16)
    for (int i = 0; i < count; ++i) out[i] = widen_bf16(values[i]);
  else
    for (int i = 0; i < count; ++i) out[i] = widen_fp16(values[i]);
}

void gather_b(float* out, const unsigned char* shared, const OperandUnits& operand, OperandType type) {
  alignas(64) std::uint16_t raw[kK * kMaxN];
  const int lines = operand.lines;
  if (operand.contiguous == Contiguous::other) {
    std::uint16_t* next = raw;
    for (const std::uint16_t unit : operand.units) {
      std::memcpy(next, shared + unit * 16u, 16);
      next += 8;
    }
  } else {
    for (int line = 0; line < lines; ++line) {
      for (int half = 0; half < 2; ++half) {
        std::uint16_t unit[8];
        std::memcpy(unit, shared + operand.units[static_cast<std::size_t>(2 * line + half)] * 16u, 16);
        for (int i = 0; i < 8; ++i) raw[(8 * half + i) * lines + line] = unit[i];
      }
    }
  }
  widen(out, raw, kK * lines, type);
}

void gather_a(float* out, const unsigned char* shared, const OperandUnits& operand, int first_row, OperandType type) {
  std::uint16_t raw[16 * kK];
  for (int row = 0; row < 16; ++row)
    for (int half = 0; half < 2; ++half)
      std::memcpy(raw + row * kK + 8 * half, shared + operand.units[static_cast<std::size_t>(2 * (first_row + row) + half)] * 16u, 16);
  widen(out, raw, 16 * kK, type);
}

}  // namespace tandem::model
