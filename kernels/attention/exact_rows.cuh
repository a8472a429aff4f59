// The way out for logits beyond 2^24: a warp computes its rows again with plain loops over global memory, from scores less their exact maximum.
// Slow, and right for every finite input; ordinary data never comes here.
#pragma once
#include "attention/epilogue.cuh"
#include "attention/params.hpp"
#include "attention/seqlens.cuh"
#include "attention/sequence.cuh"
#include "attention/softmax.cuh"
#include "attention/storage.cuh"
#include "ptx/cvt.cuh"
#include "ptx/ldst.cuh"
#include "ptx/math.cuh"
#include "ptx/warp.cuh"

namespace tandem::attention {

template <ForwardSpec kSpec>
class ExactRows {
 public:
  TANDEM_DEVICE ExactRows(const ForwardParams& params, const TileInfo& tile)
      : params_(params),
        seqlens_(params, tile),
        tile_(tile),
        q_(queries(params.q)),
        k_(keys(params.k)),
        v_(keys(params.v)),
        out_(queries(params.out)),
        lane_(ptx::lane_index()) {}

  // The 16 rows of this warp, from `first_row` on; all lanes take part.
  TANDEM_DEVICE void compute(int first_row) const {
#pragma unroll 1
    for (int row = first_row; row < first_row + 16 && row < seqlens_.seqlen_q; ++row) compute_row(row);
  }

 private:
  static constexpr bool kBf16 = kSpec.dtype == DType::bf16;
  // Row 0 of the tile's sequence and head.
  TANDEM_DEVICE u16* queries(const StridedTensor& tensor) const {
    u16* row = static_cast<u16*>(tensor.data) + tile_.batch * tensor.stride_batch + tile_.head * tensor.stride_head;
    if constexpr (kSpec.ragged) row += (tile_.q_end - tile_.seqlen_q) * tensor.stride_row;
    return row;
  }
  TANDEM_DEVICE const u16* keys(const StridedTensor& tensor) const {
    const SequenceRows rows = key_rows<kSpec>(params_, tile_);
    const u16* row = static_cast<const u16*>(tensor.data) + rows.batch * tensor.stride_batch + divide(tile_.head, params_.kv_group) * tensor.stride_head;
    if constexpr (kSpec.ragged) row += (tile_.k_end - tile_.seqlen_k) * tensor.stride_row;
    return row;
  }

  TANDEM_DEVICE float score(int row, int key) const {
    const u16* q = q_ + row * params_.q.stride_row;
    const u16* k = k_ + key * params_.k.stride_row;
    float sum = 0.0f;
#pragma unroll 1
    for (int column = 0; column < params_.head_dim; column += 2) {
      const u32 q_pair = ptx::load_global_4b(q + column), k_pair = ptx::load_global_4b(k + column);
      sum = ptx::fma(ptx::cvt_low<kBf16>(q_pair), ptx::cvt_low<kBf16>(k_pair), sum);
      sum = ptx::fma(ptx::cvt_high<kBf16>(q_pair), ptx::cvt_high<kBf16>(k_pair), sum);
    }
    if constexpr (kSpec.softcap) return ptx::tanh_approx(sum * params_.cap_scale);
    return sum;
  }

  TANDEM_DEVICE void compute_row(int row) const {
    const int first_key = seqlens_.first_key(row), end_key = seqlens_.end_key(row);
    float row_max = -ptx::infinity();
#pragma unroll 1
    for (int key = first_key + lane_; key < end_key; key += 32) row_max = ptx::max(row_max, score(row, key));
#pragma unroll 1
    for (int distance = 16; distance > 0; distance /= 2) row_max = ptx::max(row_max, ptx::shuffle_xor(row_max, distance));

    const float sink = Epilogue<kSpec>::sink_of(params_, tile_);
    // 64 columns at a time, with the weights computed again for each: short code counts here, not time.
#pragma unroll 1
    for (int first_column = 0; first_column < params_.head_dim_v; first_column += 64) {
      const int column = first_column + 2 * lane_;
      const bool exists = column < params_.head_dim_v;
      float row_sum = 0.0f, low = 0.0f, high = 0.0f;
#pragma unroll 1
      for (int block = first_key; block < end_key; block += 32) {  // each lane weighs one key, then all lanes add the 32 rows of V
        const int key = block + lane_;
        const float weight = key < end_key ? ptx::exp2_approx((score(row, key) - row_max) * params_.scale_log2) : 0.0f;
        row_sum += weight;
#pragma unroll 1
        for (int source = 0; source < 32 && block + source < end_key; ++source) {
          const float p = ptx::shuffle(weight, source);
          if (!exists) continue;
          const u32 pair = ptx::load_global_4b(v_ + (block + source) * params_.v.stride_row + column);
          low = ptx::fma(p, ptx::cvt_low<kBf16>(pair), low);
          high = ptx::fma(p, ptx::cvt_high<kBf16>(pair), high);
        }
      }
#pragma unroll 1
      for (int distance = 16; distance > 0; distance /= 2) row_sum += ptx::shuffle_xor(row_sum, distance);

      float lse;
      const float scale = Softmax<kSpec>::normalizer(row_sum == 0.0f ? 0.0f : row_max * params_.scale_log2, row_sum, sink, lse);
      if (exists) ptx::store_global_4b(out_ + row * params_.out.stride_row + column, scale == 0.0f ? 0u : ptx::cvt_pack<kBf16>(low * scale, high * scale));
      if (first_column == 0 && params_.lse != nullptr && lane_ == 0) ptx::store_global(Epilogue<kSpec>::lse_row(params_, tile_) + row, lse);
    }
  }

  const ForwardParams& params_;
  Seqlens<kSpec> seqlens_;
  const TileInfo& tile_;
  const u16* q_;
  const u16* k_;
  const u16* v_;
  u16* out_;
  int lane_;
};

}  // namespace tandem::attention
