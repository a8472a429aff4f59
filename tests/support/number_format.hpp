// The element types as numbers: exact decoding, and rounding to nearest with ties to even straight from double. Written by arithmetic on
// values, unlike the backends' conversions on bits, so that one checks the other.
#pragma once

#include <cstdint>

#include "common/tensor.hpp"

namespace tandem::testing {

struct NumberFormat {
  int precision;     // significant bits, the hidden one included
  int min_exponent;  // of the smallest normal number 2^min_exponent
  double largest;    // finite

  // Half a unit in the last place of 1: the largest relative error of rounding.
  double roundoff() const;
  double smallest_subnormal() const;
};

NumberFormat format_of(ElementType type);

// The nearest value of the type. Past the largest finite value it is an infinity, as IEEE 754 says.
double round_to(ElementType type, double value);

// Bits of a value that the type holds exactly (or of an infinity or NaN).
std::uint32_t encode(ElementType type, double value);
double decode(ElementType type, std::uint32_t bits);

}  // namespace tandem::testing
