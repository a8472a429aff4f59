// The arithmetic of a warp's quarter of a WGMMA: D[16 x n] += A[16 x 16] B[16 x n] in FP32.
#pragma once

#include <cstdint>

#include "machine/wgmma.hpp"

namespace tandem::model {

// The products of 16-bit numbers are exact in FP32. The hardware sums them in an order and width that it does not document; here k by k.
void multiply_accumulate(float* d, const float* a, const float* b, int n);

// `values` of 16-bit elements as floats, bit for bit.
void widen(float* out, const std::uint16_t* values, int count, OperandType type);

// Units of an operand as a [16][lines] matrix: k outermost. A has its own order, [lines][16], for its part of 16 rows.
void gather_b(float* out, const unsigned char* shared, const OperandUnits& units, OperandType type);
void gather_a(float* out, const unsigned char* shared, const OperandUnits& units, int first_row, OperandType type);

}  // namespace tandem::model
