// The online softmax of one panel and tile, for each instruction set. Included once per target by forward_kernel.cpp.
#if defined(TANDEM_CPU_SOFTMAX_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_CPU_SOFTMAX_INL
#undef TANDEM_CPU_SOFTMAX_INL
#else
#define TANDEM_CPU_SOFTMAX_INL
#endif

#include <cstdint>
#include <limits>

#include "backends/cpu/exp-inl.hpp"
#include "backends/cpu/gemm-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Ints = hn::RebindToSigned<Floats>;
inline constexpr int kPanelRows = 2 * kLanes;

// Keys of the tile that each row of a panel sees, relative to the tile: begin <= key < end.
struct VisibleInTile {
  alignas(64) std::int32_t begin[kPanelRows];
  alignas(64) std::int32_t end[kPanelRows];
};

HWY_INLINE hn::Mask<Floats> sees(const VisibleInTile& visible, int vector, int key) {
  const Floats d;
  const Ints di;
  const auto position = hn::Set(di, key);
  const auto begin = hn::Load(di, visible.begin + vector * kLanes);
  const auto end = hn::Load(di, visible.end + vector * kLanes);
  return hn::RebindMask(d, hn::AndNot(hn::Lt(position, begin), hn::Lt(position, end)));
}

// What the softmax carries from tile to tile. A panel starts with row_max = -inf and row_sum = 0.
struct SoftmaxState {
  alignas(64) float row_max[kPanelRows];
  alignas(64) float row_sum[kPanelRows];
  float weight_scale = 1.0f;  // of every weight; 2^-24 once a tile of V is so large that sums could overflow
};

inline constexpr float kReducedWeightScale = 0x1p-24f;

// Scores s become cap * tanh(s / cap). NaN stays NaN.
template <int kVectors>
HWY_INLINE void cap_scores(float* HWY_RESTRICT s, int keys, float cap) {
  const Floats d;
  const Vector bound = hn::Set(d, cap);
  for (int i = 0; i < keys * kVectors * kLanes; i += kLanes) {
    hn::Store(hn::Mul(bound, tanh(hn::Div(hn::Load(d, s + i), bound))), d, s + i);
  }
}

// Scores in `s` become weights; `rescale` is what the weights so far, and what they were summed to, are to be multiplied with.
// A masked score is replaced, never added to. NaN in a visible score reaches row_sum and the weights whatever the maximum made of it.
template <int kVectors, bool kMasked>
HWY_INLINE void softmax_step(float* HWY_RESTRICT s, int keys, const VisibleInTile& visible, SoftmaxState& state, float weight_scale,
                             Vector (&rescale)[kVectors]) {
  const Floats d;
  const Vector minus_infinity = hn::Set(d, -std::numeric_limits<float>::infinity());
  const Vector scale = hn::Set(d, weight_scale);
  const Vector change_of_scale = hn::Set(d, weight_scale / state.weight_scale);
  for (int c = 0; c < kVectors; ++c) {
    float* const column = s + c * kLanes;
    constexpr int kStride = kVectors * kLanes;

    const Vector old_max = hn::Load(d, state.row_max + c * kLanes);
    Vector new_max = old_max;
    for (int key = 0; key < keys; ++key) {
      Vector score = hn::Load(d, column + key * kStride);
      if constexpr (kMasked) {
        score = hn::IfThenElse(sees(visible, c, key), score, minus_infinity);
        hn::Store(score, d, column + key * kStride);
      }
      new_max = hn::Max(new_max, score);
    }

    // A row that has seen nothing keeps weights of 0 instead of exp(-inf + inf).
    const Vector reference = hn::IfThenElse(hn::Eq(new_max, minus_infinity), hn::Zero(d), new_max);
    rescale[c] = hn::Mul(exp_nonpositive(hn::Sub(old_max, reference)), change_of_scale);
    Vector sum = hn::Zero(d);
    for (int key = 0; key < keys; ++key) {
      const Vector weight = hn::Mul(exp_nonpositive(hn::Sub(hn::Load(d, column + key * kStride), reference)), scale);
      hn::Store(weight, d, column + key * kStride);
      sum = hn::Add(sum, weight);
    }
    hn::Store(new_max, d, state.row_max + c * kLanes);
    hn::Store(hn::MulAdd(hn::Load(d, state.row_sum + c * kLanes), rescale[c], sum), d, state.row_sum + c * kLanes);
  }
  state.weight_scale = weight_scale;
}

}  // namespace tandem::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
