#include "support/number_format.hpp"

#include <cmath>
#include <limits>

namespace tandem::testing {

NumberFormat format_of(ElementType type) {
  switch (type) {
    case ElementType::fp16: return {11, -14, 65504.0};
    case ElementType::bf16: return {8, -126, std::ldexp(255.0, 120)};
    case ElementType::fp32: break;
  }
  return {24, -126, std::numeric_limits<float>::max()};
}

double NumberFormat::roundoff() const { return std::ldexp(1.0, -precision); }
double NumberFormat::smallest_subnormal() const { return std::ldexp(1.0, min_exponent - precision + 1); }

double round_to(ElementType type, double value) {
  if (!std::isfinite(value) || value == 0.0) return value;
  const NumberFormat format = format_of(type);
  const int exponent = std::max(std::ilogb(value), format.min_exponent);
  const double unit = std::ldexp(1.0, exponent - format.precision + 1);
  // The quotient is exact: unit is a power of two. nearbyint rounds ties to even in the default mode.
  const double rounded = std::nearbyint(value / unit) * unit;
  return std::abs(rounded) > format.largest ? std::copysign(std::numeric_limits<double>::infinity(), value) : rounded;
}

namespace {

// Widths of exponent and mantissa fields.
struct Fields {
  int exponent_bits, mantissa_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint32_t exponent_mask() const { return (1u << exponent_bits) - 1u; }
};

Fields fields_of(ElementType type) {
  switch (type) {
    case ElementType::fp16: return {5, 10};
    case ElementType::bf16: return {8, 7};
    case ElementType::fp32: break;
  }
  return {8, 23};
}

}  // namespace

std::uint32_t encode(ElementType type, double value) {
  const Fields fields = fields_of(type);
  const std::uint32_t sign = std::signbit(value) ? 1u << (fields.exponent_bits + fields.mantissa_bits) : 0u;
  const std::uint32_t infinity = fields.exponent_mask() << fields.mantissa_bits;
  if (std::isnan(value)) return sign | infinity | (1u << (fields.mantissa_bits - 1));
  if (std::isinf(value)) return sign | infinity;
  if (value == 0.0) return sign;
  const int exponent = std::max(std::ilogb(value), 1 - fields.bias());
  const auto significand = static_cast<std::uint32_t>(std::ldexp(std::abs(value), fields.mantissa_bits - exponent));
  // The hidden bit of a normal number carries into the exponent field, which is therefore one less than biased here.
  return sign | ((static_cast<std::uint32_t>(exponent + fields.bias() - 1) << fields.mantissa_bits) + significand);
}

double decode(ElementType type, std::uint32_t bits) {
  const Fields fields = fields_of(type);
  const double sign = (bits >> (fields.exponent_bits + fields.mantissa_bits)) & 1u ? -1.0 : 1.0;
  const std::uint32_t exponent = (bits >> fields.mantissa_bits) & fields.exponent_mask();
  const std::uint32_t mantissa = bits & ((1u << fields.mantissa_bits) - 1u);
  if (exponent == fields.exponent_mask()) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  const double significand = exponent == 0 ? mantissa : mantissa + (1u << fields.mantissa_bits);
  const int power = static_cast<int>(exponent == 0 ? 1u : exponent) - fields.bias() - fields.mantissa_bits;
  return sign * std::ldexp(significand, power);
}

}  // namespace tandem::testing
