// The two products, for each instruction set. Included once per target by forward_kernel.cpp.
//
// Lanes are query rows in both: S^T = K Q^T and O^T += V^T P^T. K and V are read one number at a time and broadcast, so neither is ever
// transposed, and the softmax between the products works down the lanes without a horizontal step.
#if defined(TANDEM_CPU_GEMM_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_CPU_GEMM_INL
#undef TANDEM_CPU_GEMM_INL
#else
#define TANDEM_CPU_GEMM_INL
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(Floats()));

// An accumulator block is kBlock keys (or columns of V) by two vectors of rows. 12 x 2 fills 32 registers, 6 x 2 fills 16.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
inline constexpr int kBlock = 12;
#else
inline constexpr int kBlock = 6;
#endif
inline constexpr int kSmallestBlock = kBlock / 3;  // what is left over is computed in blocks of kBlock, 2/3 kBlock or this

// A tile of K and V. K is cut into chunks of columns: within a chunk the distance between rows is a constant of the code, and a tile
// spreads evenly over the sets of the cache for every head_dim.
inline constexpr int kTileKeys = 96;
inline constexpr int kChunk = 64;
static_assert(kTileKeys % 12 == 0 && kChunk % kLanes == 0);

constexpr int pad_to_block(int count) { return (count + kSmallestBlock - 1) / kSmallestBlock * kSmallestBlock; }

// `k`: kRows rows of the first chunk. `q`: [head_dim][kVectors] vectors. `s`: [kRows][kVectors] vectors.
template <int kRows, int kVectors>
HWY_INLINE void score_block(const float* HWY_RESTRICT k, const float* HWY_RESTRICT q, int head_dim, float scale, float* HWY_RESTRICT s) {
  const Floats d;
  Vector sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < kVectors; ++c) sum[r][c] = hn::Zero(d);
  }
  for (int first = 0; first < head_dim; first += kChunk, k += kTileKeys * kChunk) {
    const int columns = head_dim - first < kChunk ? head_dim - first : kChunk;
    for (int column = 0; column < columns; ++column, q += kVectors * kLanes) {
      Vector query[kVectors];
#pragma GCC unroll 2
      for (int c = 0; c < kVectors; ++c) query[c] = hn::Load(d, q + c * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const Vector key = hn::Set(d, k[r * kChunk + column]);
#pragma GCC unroll 2
        for (int c = 0; c < kVectors; ++c) sum[r][c] = hn::MulAdd(key, query[c], sum[r][c]);
      }
    }
  }
  const Vector scales = hn::Set(d, scale);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < kVectors; ++c) hn::Store(hn::Mul(sum[r][c], scales), d, s + (r * kVectors + c) * kLanes);
  }
}

// `v`: [keys][kColumns]. `p`: [keys][kVectors] vectors. `o`: [kColumns][kVectors] vectors; o = o * rescale + this tile's sum. The tile is
// summed on its own first: the rounding of a long sequence grows with the number of tiles, not of keys.
template <int kColumns, int kVectors>
HWY_INLINE void value_block(const float* HWY_RESTRICT v, const float* HWY_RESTRICT p, int keys, const Vector (&rescale)[kVectors], float* HWY_RESTRICT o) {
  const Floats d;
  Vector sum[kColumns][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kColumns; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < kVectors; ++c) sum[r][c] = hn::Zero(d);
  }
  for (int key = 0; key < keys; ++key, v += kColumns, p += kVectors * kLanes) {
    Vector weight[kVectors];
#pragma GCC unroll 2
    for (int c = 0; c < kVectors; ++c) weight[c] = hn::Load(d, p + c * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kColumns; ++r) {
      const Vector value = hn::Set(d, v[r]);
#pragma GCC unroll 2
      for (int c = 0; c < kVectors; ++c) sum[r][c] = hn::MulAdd(value, weight[c], sum[r][c]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kColumns; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < kVectors; ++c) {
      float* out = o + (r * kVectors + c) * kLanes;
      hn::Store(hn::MulAdd(hn::Load(d, out), rescale[c], sum[r][c]), d, out);
    }
  }
}

// Scores of `keys` keys of the packed tile `k`; the tile's rows are valid up to the next multiple of kSmallestBlock.
template <int kVectors>
HWY_INLINE void scores(const float* k, const float* q, int head_dim, int keys, float scale, float* s) {
  int key = 0;
  for (; key + kBlock <= keys; key += kBlock) {
    score_block<kBlock, kVectors>(k + key * kChunk, q, head_dim, scale, s + key * kVectors * kLanes);
  }
  const int left = pad_to_block(keys - key);
  if (left == kBlock) score_block<kBlock, kVectors>(k + key * kChunk, q, head_dim, scale, s + key * kVectors * kLanes);
  if (left == 2 * kSmallestBlock) score_block<2 * kSmallestBlock, kVectors>(k + key * kChunk, q, head_dim, scale, s + key * kVectors * kLanes);
  if (left == kSmallestBlock) score_block<kSmallestBlock, kVectors>(k + key * kChunk, q, head_dim, scale, s + key * kVectors * kLanes);
}

// V is packed in blocks of columns, each [kTileKeys][width]; `columns` is a multiple of kSmallestBlock.
template <int kVectors>
HWY_INLINE void accumulate_values(const float* v, const float* p, int keys, int columns, const Vector (&rescale)[kVectors], float* o) {
  int column = 0;
  for (; column + kBlock <= columns; column += kBlock) {
    value_block<kBlock, kVectors>(v + column * kTileKeys, p, keys, rescale, o + column * kVectors * kLanes);
  }
  const int left = columns - column;
  if (left == 2 * kSmallestBlock) value_block<2 * kSmallestBlock, kVectors>(v + column * kTileKeys, p, keys, rescale, o + column * kVectors * kLanes);
  if (left == kSmallestBlock) value_block<kSmallestBlock, kVectors>(v + column * kTileKeys, p, keys, rescale, o + column * kVectors * kLanes);
}

}  // namespace tandem::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
