// Online softmax in base 2. A thread holds parts of two rows; the quad shares a row. Scores come unscaled; P = exp2(S c - m c), c = scale log2 e.
// With lazy rescale m may lag behind the true maximum by up to 2^kLazyBits: P is then at most 2^kLazyBits and the common factor cancels in O / l.
#pragma once
#include "attention/spec.hpp"
#include "ptx/cvt.cuh"
#include "ptx/math.cuh"
#include "ptx/warp.cuh"
#include "tile/fragment.cuh"

namespace tandem::attention {

constexpr float kLazyBits = 8.0f;
// |m c| from here on: the rounding of m c moves all exponents of a row by more than a bit, and they may leave the range of P. Such rows are
// computed again from scores less the maximum (exact_rows.cuh): the check costs the loop one instruction a row.
constexpr float kLargeExponent = 16777216.0f;  // 2^24

template <ForwardSpec kSpec>
class Softmax {
 public:
  static constexpr int kPerRow = kSpec.block_n / 4;  // scores of a row that a thread holds
  using Scores = float[kSpec.block_n / 2];
  using Probabilities = u32[kSpec.block_n / 16][4];

  TANDEM_DEVICE explicit Softmax(float scale_log2) : scale_(scale_log2) { reset(); }

  TANDEM_DEVICE void reset() {
#pragma unroll
    for (int row = 0; row < tile::kRowsOfThread; ++row) {
      row_max_[row] = -ptx::infinity();
      row_sum_[row] = 0.0f;
      correction_[row] = 1.0f;
    }
    largest_ = 0.0f;
  }

  // Whether some row of this warp met exponents that are too large to be right. Warp-uniform. A NaN is not large.
  TANDEM_DEVICE bool out_of_range() const { return ptx::warp_any(largest_ >= kLargeExponent); }

  // After the first block of a tile: there is no O yet that would need a correction.
  TANDEM_DEVICE void no_correction() { correction_[0] = correction_[1] = 1.0f; }

  // S -> P, row by row. While row 0 is exponentiated the maximum of row 1 is taken; while row 1 is, both rows are converted.
  // `drain` is called early in row 1: it may wait for whatever still reads the old P.
  template <class Drain>
  TANDEM_DEVICE void by_row(Scores& s, Probabilities& p, Drain&& drain) {
    float partial[4] = {s[index(0, 0)], s[index(0, 1)], s[index(0, 2)], s[index(0, 3)]};
#pragma unroll
    for (int e = 4; e < kPerRow; ++e) partial[e % 4] = ptx::max(partial[e % 4], s[index(0, e)]);
    const float offset0 = update(0, quad_max(ptx::max(ptx::max(partial[0], partial[1]), ptx::max(partial[2], partial[3]))));

    float sum[2] = {0.0f, 0.0f};
    float max1[2] = {s[index(1, 0)], s[index(1, 1)]};
    float row1 = 0.0f;
#pragma unroll
    for (int e = 0; e < kPerRow; ++e) {
      exponentiate(s[index(0, e)], offset0, sum[e % 2]);
      if (2 * e + 2 < kPerRow) {
        max1[0] = ptx::max_in_place(max1[0], s[index(1, 2 * e + 2)]);
        max1[1] = ptx::max_in_place(max1[1], s[index(1, 2 * e + 3)]);
      }
      if (e == kPerRow / 2) row1 = quad_max(ptx::max_in_place(max1[0], max1[1]));
    }
    accumulate(0, sum[0] + sum[1]);

    const float offset1 = update(1, row1);
    sum[0] = sum[1] = 0.0f;
    // Pairs of row 0 are converted from the kDrain-th exp on, those of row 1 as they come, kLag exps behind.
    constexpr int kDrain = kPerRow > 4 ? 4 : kPerRow - 1;
    constexpr int kLag = 8;
#pragma unroll
    for (int e = 0; e < kPerRow; ++e) {
      exponentiate(s[index(1, e)], offset1, sum[e % 2]);
      if (e == kDrain) drain();
      if (e >= kDrain && e - kDrain < kPerRow / 2) convert(s, p, 0, e - kDrain);
      if (e > kLag && e % 2 == 1) convert(s, p, 1, (e - kLag) / 2);
    }
    accumulate(1, sum[0] + sum[1]);
#pragma unroll
    for (int pair = kPerRow - kDrain; pair < kPerRow / 2; ++pair) convert(s, p, 0, pair);
#pragma unroll
    for (int pair = kPerRow > kLag ? (kPerRow - kLag) / 2 : 0; pair < kPerRow / 2; ++pair) convert(s, p, 1, pair);
  }

  // Brings O, a sum over earlier blocks, to the maximum that P stands on now.
  template <int kCount>
  TANDEM_DEVICE void rescale(float (&o)[kCount]) {
    if constexpr (kSpec.lazy_rescale)
      if (!ptx::warp_any(correction_[0] != 1.0f || correction_[1] != 1.0f)) return;
#pragma unroll
    for (int i = 0; i < kCount; ++i) o[i] *= correction_[(i / 2) % 2];
  }

  // After the last block: joins the quad's sums. Returns 1 / l, or 0 for a row that saw no key; lse gets the natural logarithm, -inf for such a row.
  // `sink`: a logit that joins the sum, -inf: none.
  TANDEM_DEVICE float finish(int row, float& lse, float sink) {
    float sum = row_sum_[row];
    sum += ptx::shuffle_xor(sum, 1);
    sum += ptx::shuffle_xor(sum, 2);
    return normalizer(ptx::multiply(finite_max(row), scale_), sum, sink, lse);
  }

  // 1 / l of a row whose exps, taken from 2^`offset`, have the sum `sum`.
  TANDEM_DEVICE static float normalizer(float offset, float sum, float sink, float& lse) {
    constexpr float kLn2 = 0.693147180559945309f, kLog2E = 1.44269504088896340736f;
    const bool empty = sum == 0.0f;  // a visible NaN makes the sum NaN and is not empty
    // Without a sink nothing is added: the same bits as if it were not there. One that exceeds the row by more than fp32 holds is all there is.
    const float weight = ptx::exp2_approx(sink * kLog2E - offset), all = sum + weight;
    lse = empty || weight == ptx::infinity() ? sink : (offset + ptx::log2_approx(all)) * kLn2;
    return empty ? 0.0f : ptx::reciprocal(all);
  }

 private:
  static constexpr int index(int row, int e) { return tile::accumulator_index(row, e); }

  TANDEM_DEVICE static float quad_max(float value) {
    value = ptx::max(value, ptx::shuffle_xor(value, 1));
    return ptx::max(value, ptx::shuffle_xor(value, 2));
  }

  TANDEM_DEVICE float finite_max(int row) const { return row_max_[row] == -ptx::infinity() ? 0.0f : row_max_[row]; }

  // Takes in the block's maximum; returns the offset of the exponents. Sets the correction that O and the row sum need.
  TANDEM_DEVICE float update(int row, float block_max) {
    float wanted = ptx::max(block_max, row_max_[row]);
    if (kSpec.lazy_rescale && (wanted - row_max_[row]) * scale_ <= kLazyBits) wanted = row_max_[row];
    const float old = row_max_[row];
    row_max_[row] = wanted;
    const float base = finite_max(row);
    const float offset = ptx::multiply(base, scale_);
    // Between two rounded offsets, so that it is exactly what P of the old and of the new offset differ by.
    correction_[row] = ptx::exp2_approx(ptx::multiply(old, scale_) - offset);
    largest_ = ptx::max(largest_, ptx::abs(offset));
    return offset;
  }

  TANDEM_DEVICE void exponentiate(float& score, float offset, float& sum) {
    score = ptx::exp2_approx(score * scale_ - offset);
    sum += score;
  }

  TANDEM_DEVICE void accumulate(int row, float sum) { row_sum_[row] = row_sum_[row] * correction_[row] + sum; }

  TANDEM_DEVICE static void convert(Scores& s, Probabilities& p, int row, int pair) {
    p[pair / 2][tile::operand_word(row, pair)] = ptx::cvt_pack<kSpec.dtype == DType::bf16>(s[index(row, 2 * pair)], s[index(row, 2 * pair + 1)]);
  }

  float scale_;
  float row_max_[tile::kRowsOfThread];
  float row_sum_[tile::kRowsOfThread];
  float largest_;                          // |m c| over the blocks of the tile
  float correction_[tile::kRowsOfThread];  // exp2((old maximum - new maximum) c) of the last block
};

}  // namespace tandem::attention
