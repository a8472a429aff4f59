// What the primitive kernels read and where they write. Plain C++20: shared by the device, the model and the host that compares them.
#pragma once
#include "ptx/dtype.hpp"
#include "ptx/tensor_map.hpp"

namespace tandem::primitives {

// Operands of the WGMMA cases: A is 64 x 64, B 64 (k) x 256, once with k contiguous and once with n.
constexpr int kM = 64, kK = 64, kMaxN = 256;
// Every width of a tile: multiples of 16.
#ifndef TANDEM_PRIMITIVES_STEP_N
#define TANDEM_PRIMITIVES_STEP_N 16
#endif
constexpr int kFirstN = 16, kStepN = TANDEM_PRIMITIVES_STEP_N;

// Ways to multiply: SS and RS, each with B k-contiguous and n-contiguous, of which the last starts from a D that is not zero; and SS with narrow chunks of
// B k-contiguous, columns 0 to 15 and 16 to 47.
constexpr int kWays = 5, kNarrowWay = 4;
constexpr int kNarrow = 16, kHalf = 32, kNarrowK = kNarrow + kHalf;

// A tensor with odd extents, from which boxes are taken that stick out of it on every side.
constexpr int kOddColumns = 72, kOddRows = 50, kOddHeads = 3, kOddBatch = 2;
constexpr int kBoxRows = 32;
constexpr int kFlatRows = 8, kFlatHeads = 2;  // the box of a second map takes two heads
struct BoxPlace {
  int column, row, head, batch;
};
constexpr BoxPlace kBoxPlaces[] = {{0, 0, 0, 0},  {32, 40, 1, 1}, {-8, -5, 2, 0}, {64, 0, 0, 1}, {80, 0, 0, 0},
                                   {0, 60, 0, 0}, {0, 0, 3, 0},   {8, 30, -1, 1}, {-64, 0, 1, 0}};
constexpr int kBoxes = sizeof(kBoxPlaces) / sizeof(kBoxPlaces[0]);
constexpr BoxPlace kFlatPlaces[] = {{0, 0, 0, 0}, {8, 45, 2, 1}, {-16, -3, -1, 0}};
constexpr int kFlatBoxes = sizeof(kFlatPlaces) / sizeof(kFlatPlaces[0]);
constexpr int kBoxWords = kBoxRows * 32;  // 128 bytes a row
constexpr int kFlatWords = kFlatRows * kFlatHeads * 32;
// Boxes narrower than the swizzle: their columns, and the bytes that a row takes in shared memory.
struct NarrowBox {
  int columns, row_bytes;
};
constexpr NarrowBox kNarrowBoxes[] = {{8, 32}, {24, 64}, {40, 128}};
constexpr int kNarrowBoxCount = sizeof(kNarrowBoxes) / sizeof(kNarrowBoxes[0]);
constexpr BoxPlace kNarrowPlace = {16, 30, 1, 1};
constexpr int kNarrowSalt = 110;
constexpr BoxPlace kStorePlaces[] = {{0, 0, 0, 0}, {32, 40, 1, 1}, {8, 45, 2, 0}, {64, 20, 0, 0}, {0, 60, 0, 0}};
constexpr int kStores = sizeof(kStorePlaces) / sizeof(kStorePlaces[0]);

constexpr int kFloats = 4096;   // 32-bit patterns for arithmetic and conversions
constexpr int kHalves = 65536;  // all 16-bit patterns

// Output, in 32-bit words.
constexpr int wgmma_words(int n) { return 128 * (n / 2); }
constexpr int wgmma_offset(int n, int way) {
  int offset = 0;
  for (int before = kFirstN; before < n; before += kStepN) offset += kWays * wgmma_words(before);
  return offset + way * wgmma_words(n);
}
constexpr int kWgmmaWords = wgmma_offset(kMaxN + kStepN, 0);

enum class Move : int { boxes, flat_boxes, narrow_boxes, ldmatrix, stmatrix, shuffles, count };
constexpr int words_of(Move move) {
  switch (move) {
    case Move::boxes: return kBoxes * kBoxWords;
    case Move::flat_boxes: return kFlatBoxes * kFlatWords;
    case Move::narrow_boxes: return kNarrowBoxCount * kBoxWords;
    case Move::ldmatrix: return 4 * 32 * 4;   // warps, lanes, registers
    case Move::stmatrix: return 4 * 16 * 32;  // warps, rows, words
    case Move::shuffles: return 128 * 6;
    default: return 0;
  }
}
constexpr int offset_of(Move move) {
  int offset = 0;
  for (int before = 0; before < static_cast<int>(move); ++before) offset += words_of(static_cast<Move>(before));
  return offset;
}
constexpr int kMoveWords = offset_of(Move::count);

// Arithmetic, one word for each of the kFloats inputs; f[i], f[i + 1] and f[i + 2] (cyclic) are the operands.
enum class Op : int { to_bf16, to_fp16, max, max_in_place, abs, fma, multiply, multiply_high, exp2, log2, reciprocal, count };
constexpr int kExactOps = static_cast<int>(Op::exp2);  // those before it are exact
constexpr int kArithmeticWords = static_cast<int>(Op::count) * kFloats;
// Then each 16-bit pattern as FP32: bf16 low, bf16 high, fp16 low, fp16 high.
constexpr int kWidenWords = 4 * kHalves;

// Multicast: what each of two blocks finds in its shared memory.
constexpr int kClusterWords = 2 * kBoxWords;

struct Params {
  TensorMap a_map, b_k_map, b_n_map;  // boxes 64 x 64, 64 x 256, 64 x 64
  TensorMap b_16_map, b_32_map;       // as b_k_map, boxes 16 and 32 wide
  TensorMap odd_map, flat_map;
  TensorMap narrow_maps[kNarrowBoxCount];
  TensorMap stored_map;  // as odd_map, of another tensor; boxes 64 x 32
  const unsigned* floats;
  unsigned* out;
};

}  // namespace tandem::primitives
