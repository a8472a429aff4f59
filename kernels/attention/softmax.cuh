// Online softmax in base 2. A thread holds parts of two rows; the quad shares a row. Scores come unscaled; P = exp2(c S - offset), c = scale log2 e.
//
// Any offset gives the right O / l as long as nothing leaves the range of FP32, so it need not be the maximum. The first block of a tile, and
// blocks at the edge of the mask, take the maximum (by_maximum). Where every row has an offset the exps start at once, and the row's sum, which
// is wanted anyway, tells when they have grown too large: then, and only then, they are scaled down (by_sum).
//
// With a softcap P = exp2(c tanh(S cap_scale) - offset), c = softcap log2 e. The exp unit gives tanh as slowly as exp2; of scores well below the cap
// x + kCubic x^3 is as good a tanh, and costs two instructions of the FMA pipe (begin_capped).
#pragma once
#include "attention/params.hpp"
#include "attention/spec.hpp"
#include "ptx/cvt.cuh"
#include "ptx/math.cuh"
#include "ptx/warp.cuh"
#include "tile/fragment.cuh"

namespace tandem::attention {

// A new maximum moves the offset when it exceeds it by this many bits.
constexpr float kLazyBits = 8.0f;
// What a thread's exps of a row and block may add up to: each of them then fits FP16, and P V has 112 bits left for V.
constexpr float kLargeSum = 32768.0f;  // 2^15
// Offsets from here on: their rounding moves all exponents of a row by more than a bit, and they may leave the range of P. Such rows are
// computed again from scores less the maximum (exact_rows.cuh), as are those whose sum left the range of FP32.
constexpr float kLargeExponent = 16777216.0f;  // 2^24
// A row whose offset belongs to one of its scores has a sum of at least a half.
constexpr float kLostSum = 0.25f;

template <ForwardSpec kSpec>
class Softmax {
 public:
  static constexpr int kPerRow = kSpec.block_n / 4;  // scores of a row that a thread holds
  static constexpr int kBeforeDrain = kPerRow / 2;   // exps of row 1 that by_sum takes before it waits
  using Scores = float[kSpec.block_n / 2];
  using Probabilities = u32[kSpec.block_n / 16][4];

  TANDEM_DEVICE explicit Softmax(const ForwardParams& params) : scale_(params.scale_log2), cap_scale_(params.cap_scale), gentle_(params.gentle) { reset(); }

  TANDEM_DEVICE void reset() {
#pragma unroll
    for (int row = 0; row < tile::kRowsOfThread; ++row) {
      offset_[row] = -ptx::infinity();
      row_sum_[row] = 0.0f;
      correction_[row] = 1.0f;
    }
    largest_ = 0.0f;
    steep_ = false;
  }

  // Scores under a softcap become tanh(x): the softmax's scale has the cap.
  TANDEM_DEVICE void cap(Scores& s) const {
#pragma unroll
    for (float& score : s) score = capped(score);
  }

  // After the first block of a tile: there is no O yet that would need a correction.
  TANDEM_DEVICE void no_correction() { correction_[0] = correction_[1] = 1.0f; }

  // S -> P, row by row. While row 0 is exponentiated the maximum of row 1 is taken; while row 1 is, both rows are converted.
  // `drain` is called early in row 1: it may wait for whatever still reads the old P.
  template <class Drain>
  TANDEM_DEVICE void by_maximum(Scores& s, Probabilities& p, Drain&& drain) {
    float partial[4] = {s[index(0, 0)], s[index(0, 1)], s[index(0, 2)], s[index(0, 3)]};
#pragma unroll
    for (int e = 4; e < kPerRow; ++e) partial[e % 4] = ptx::max(partial[e % 4], s[index(0, e)]);
    const float offset0 = take_maximum(0, quad_max(ptx::max(ptx::max(partial[0], partial[1]), ptx::max(partial[2], partial[3]))));

    float sum[2] = {0.0f, 0.0f};
    float max1[2] = {s[index(1, 0)], s[index(1, 1)]};
    float row1 = 0.0f;
#pragma unroll
    for (int e = 0; e < kPerRow; ++e) {
      exponentiate(s[index(0, e)], linear(), offset0, sum[e % 2]);
      if (2 * e + 2 < kPerRow) {
        max1[0] = ptx::max_in_place(max1[0], s[index(1, 2 * e + 2)]);
        max1[1] = ptx::max_in_place(max1[1], s[index(1, 2 * e + 3)]);
      }
      if (e == kPerRow / 2) row1 = quad_max(ptx::max_in_place(max1[0], max1[1]));
    }
    accumulate(0, sum[0] + sum[1]);
    const float offset1 = take_maximum(1, row1);
    accumulate(1, second_row(s, p, offset1, drain));
  }

  // The same for a block before which every row has an offset: nothing precedes the exps. The branch that looks at the sums also keeps ptxas
  // from moving the wait in `drain` up among the exps that are to run beside it. S comes before the softcap.
  template <class Drain>
  TANDEM_DEVICE void by_sum(Scores& s, Probabilities& p, Drain&& drain) {
    Exponent<kSpec.caps_by_cubic()> exponent = begin_exponent();
    float sum[2][2] = {};
    if constexpr (kSpec.caps_by_cubic()) {
      begin_capped(s, exponent, sum);
    } else {
      if constexpr (kSpec.softcap) cap(s);
      begin(s, exponent, sum, 0);
    }
    no_correction();
    if (ptx::warp_any(sum[0][0] + sum[0][1] > kLargeSum || sum[1][0] + sum[1][1] > kLargeSum)) {
      scale_down<kPerRow>(0, s, sum[0]);
      scale_down<kBeforeDrain>(1, s, sum[1]);
    }
    drain();
    int converted = 0;
#pragma unroll
    for (int e = kBeforeDrain; e < kPerRow; ++e) {
      exponentiate(s[index(1, e)], exponent, offset_[1], sum[1][e % 2]);
      // Pairs of row 0, then those of row 1 some exps behind, as evenly as they come.
#pragma unroll
      for (int pair = 0; pair < kPerRow; ++pair)
        if (pair >= converted && pair < kPerRow * (e + 1 - kBeforeDrain) / (kPerRow - kBeforeDrain) && 2 * (pair - kPerRow / 2) + 8 < e) {
          convert(s, p, pair / (kPerRow / 2), pair % (kPerRow / 2));
          ++converted;
        }
    }
#pragma unroll
    for (int pair = 0; pair < kPerRow; ++pair)
      if (pair >= converted) convert(s, p, pair / (kPerRow / 2), pair % (kPerRow / 2));
    if (ptx::warp_any(sum[1][0] + sum[1][1] > kLargeSum)) {
      scale_down<kPerRow>(1, s, sum[1]);
#pragma unroll
      for (int pair = 0; pair < kPerRow / 2; ++pair) convert(s, p, 1, pair);
    }
    accumulate(0, sum[0][0] + sum[0][1]);
    accumulate(1, sum[1][0] + sum[1][1]);
  }

  // Before the first by_sum of a tile. A row without an offset has met nothing but S = -inf or NaN, which no finite input makes.
  TANDEM_DEVICE void begin_sums() { offset_[0] = finite_offset(0), offset_[1] = finite_offset(1); }

  // Brings O, a sum over earlier blocks, to the offset that P stands on now.
  template <int kCount>
  TANDEM_DEVICE void rescale(float (&o)[kCount]) {
    if constexpr (kSpec.lazy_rescale)
      if (!ptx::warp_any(correction_[0] != 1.0f || correction_[1] != 1.0f)) return;
#pragma unroll
    for (int i = 0; i < kCount; ++i) o[i] *= correction_[(i / 2) % 2];
  }

  // After the last block: joins the quad's sums.
  TANDEM_DEVICE void complete() {
#pragma unroll
    for (int row = 0; row < tile::kRowsOfThread; ++row) {
      row_sum_[row] += ptx::shuffle_xor(row_sum_[row], 1);
      row_sum_[row] += ptx::shuffle_xor(row_sum_[row], 2);
    }
  }

  // Of a complete tile: whether some row of this warp met exponents that are too large to be right, or has an offset that stands far above all
  // of its scores. Warp-uniform. A NaN is neither.
  TANDEM_DEVICE bool out_of_range() const {
    const auto lost = [this](int row) { return row_sum_[row] < kLostSum && offset_[row] != -ptx::infinity(); };
    return ptx::warp_any(lost(0) || lost(1) || largest_ >= kLargeExponent);
  }

  // Of a complete tile: returns 1 / l, or 0 for a row that saw no key; lse gets the natural logarithm, -inf for such a row.
  // `sink`: a logit that joins the sum, -inf: none.
  TANDEM_DEVICE float finish(int row, float& lse, float sink) const { return normalizer(finite_offset(row), row_sum_[row], sink, lse); }

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

  TANDEM_DEVICE float finite_offset(int row) const { return offset_[row] == -ptx::infinity() ? 0.0f : offset_[row]; }

  // Takes in the block's maximum; returns the offset of the exponents. Sets the correction that O and the row sum need.
  TANDEM_DEVICE float take_maximum(int row, float block_max) {
    const float old = offset_[row];
    const float own = block_max == -ptx::infinity() ? block_max : ptx::multiply(block_max, scale_);
    offset_[row] = own > old + (kSpec.lazy_rescale ? kLazyBits : 0.0f) ? own : old;
    const float offset = finite_offset(row);
    correction_[row] = ptx::exp2_approx(old - offset);
    largest_ = ptx::max(largest_, ptx::abs(offset));
    return offset;
  }

  // The exps of row 1 with the conversion of both rows in their shadow. Returns their sum.
  template <class Drain>
  TANDEM_DEVICE float second_row(Scores& s, Probabilities& p, float offset, Drain&& drain) {
    float sum[2] = {0.0f, 0.0f};
    // Pairs of row 0 are converted from the kDrain-th exp on, those of row 1 as they come, kLag exps behind.
    constexpr int kDrain = kPerRow > 4 ? 4 : kPerRow - 1;
    constexpr int kLag = 8;
#pragma unroll
    for (int e = 0; e < kPerRow; ++e) {
      exponentiate(s[index(1, e)], linear(), offset, sum[e % 2]);
      if (e == kDrain) drain();
      if (e >= kDrain && e - kDrain < kPerRow / 2) convert(s, p, 0, e - kDrain);
      if (e > kLag && e % 2 == 1) convert(s, p, 1, (e - kLag) / 2);
    }
#pragma unroll
    for (int pair = kPerRow - kDrain; pair < kPerRow / 2; ++pair) convert(s, p, 0, pair);
#pragma unroll
    for (int pair = kPerRow > kLag ? (kPerRow - kLag) / 2 : 0; pair < kPerRow / 2; ++pair) convert(s, p, 1, pair);
    return sum[0] + sum[1];
  }

  // The first kCount exps of a row, if they have grown too large: divides them by the largest and moves the row's offset by as much. What a row
  // gets depends on that row alone; the bits of one that has not grown stay.
  template <int kCount>
  TANDEM_DEVICE void scale_down(int row, Scores& s, float (&sum)[2]) {
    const bool large = quad_max(sum[0] + sum[1]) > kLargeSum;
    float largest = 1.0f;
#pragma unroll
    for (int e = 0; e < kCount; ++e) largest = ptx::max(largest, s[index(row, e)]);
    largest = quad_max(largest);
    const float old = offset_[row];
    offset_[row] = large ? old + ptx::log2_approx(largest) : old;
    largest_ = ptx::max(largest_, ptx::abs(offset_[row]));
    const float factor = ptx::exp2_approx(old - offset_[row]);
    correction_[row] *= factor;
    sum[0] *= factor;
    sum[1] *= factor;
#pragma unroll
    for (int e = 0; e < kCount; ++e) s[index(row, e)] *= factor;
  }

  // What turns a score into an exponent: linear S, or S (linear + cubic S^2).
  template <bool kHasCubic>
  struct Exponent {
    float linear, cubic;

    TANDEM_DEVICE float of(float score, float offset) const {
      if constexpr (kHasCubic) return ptx::fma(score, ptx::fma(score * score, cubic, linear), -offset);
      return score * linear - offset;
    }
  };

  TANDEM_DEVICE Exponent<false> linear() const { return {scale_, 0.0f}; }

  TANDEM_DEVICE auto begin_exponent() const {
    if constexpr (kSpec.caps_by_cubic()) {
      const float slope = scale_ * cap_scale_;
      return Exponent<true>{slope, slope * cap_scale_ * cap_scale_ * kCubic};
    } else {
      return linear();
    }
  }

  // What by_sum does before it looks at the sums: row 0, from score `first` on, and the first exps of row 1.
  template <bool kHasCubic>
  TANDEM_DEVICE void begin(Scores& s, Exponent<kHasCubic> exponent, float (&sum)[2][2], int first) {
#pragma unroll
    for (int e = 0; e < kPerRow; ++e)
      if (e >= first) exponentiate(s[index(0, e)], exponent, offset_[0], sum[0][e % 2]);
#pragma unroll
    for (int e = 0; e < kBeforeDrain; ++e) exponentiate(s[index(1, e)], exponent, offset_[1], sum[1][e % 2]);
  }

  // The same of scores before the softcap, as long as the warp meets none in the tile that it bends much. Half of row 0 is looked at first, what
  // follows beside the exps of that half. What is large goes by the unit, with all that comes after it. `exponent` becomes that of the scores left in s.
  TANDEM_DEVICE void begin_capped(Scores& s, Exponent<true>& exponent, float (&sum)[2][2]) {
    constexpr int kFirst = kPerRow / 2;
    if (!steep_) {
      float large[2] = {};
#pragma unroll
      for (int e = 0; e < kFirst; ++e) large[e % 2] = ptx::max(large[e % 2], ptx::abs(s[index(0, e)]));
      steep_ = is_large(ptx::max(large[0], large[1]));
    }
    if (steep_) {
      cap(s);
      exponent = {scale_, 0.0f};
      begin(s, linear(), sum, 0);
      return;
    }
    float large[4] = {};
    int looked_at = kFirst;
#pragma unroll
    for (int e = 0; e < kFirst; ++e) {
      exponentiate(s[index(0, e)], exponent, offset_[0], sum[0][e % 2]);
#pragma unroll
      for (int other = kFirst; other < 2 * kPerRow; ++other)
        if (other >= looked_at && other < kFirst + (2 * kPerRow - kFirst) * (e + 1) / kFirst) {
          large[other % 4] = ptx::max_in_place(large[other % 4], ptx::abs(s[index(other / kPerRow, other % kPerRow)]));
          ++looked_at;
        }
    }
    steep_ = is_large(ptx::max(ptx::max(large[0], large[1]), ptx::max(large[2], large[3])));
    if (steep_) {
#pragma unroll
      for (int other = kFirst; other < 2 * kPerRow; ++other) {
        float& score = s[index(other / kPerRow, other % kPerRow)];
        score = capped(score);
      }
      exponent = {scale_, 0.0f};
    }
    begin(s, exponent, sum, kFirst);
  }

  // Whether an |S| is too large for the cubic in some thread of the warp. A NaN is not: it stays one either way.
  TANDEM_DEVICE bool is_large(float score) const { return ptx::warp_any(score > gentle_); }

  TANDEM_DEVICE float capped(float score) const { return ptx::tanh_approx(score * cap_scale_); }

  template <bool kHasCubic>
  TANDEM_DEVICE void exponentiate(float& score, Exponent<kHasCubic> exponent, float offset, float& sum) {
    score = ptx::exp2_approx(exponent.of(score, offset));
    sum += score;
  }

  TANDEM_DEVICE void accumulate(int row, float sum) { row_sum_[row] = row_sum_[row] * correction_[row] + sum; }

  TANDEM_DEVICE static void convert(Scores& s, Probabilities& p, int row, int pair) {
    p[pair / 2][tile::operand_word(row, pair)] = ptx::cvt_pack<kSpec.dtype == DType::bf16>(s[index(row, 2 * pair)], s[index(row, 2 * pair + 1)]);
  }

  float scale_, cap_scale_, gentle_;
  float offset_[tile::kRowsOfThread];  // -inf: no key seen yet
  float row_sum_[tile::kRowsOfThread];
  float largest_;                          // |offset| over the blocks of the tile
  bool steep_;                             // this warp has met a score in the tile that the softcap bends much; warp-uniform
  float correction_[tile::kRowsOfThread];  // exp2(old offset - new offset) of the last block
};

}  // namespace tandem::attention
