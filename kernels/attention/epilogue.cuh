// From accumulators to memory: O normalised, rounded and stored, LSE beside it. Each warp stores its own 16 rows and waits for nobody.
#pragma once
#include "attention/params.hpp"
#include "attention/seqlens.cuh"
#include "attention/sequence.cuh"
#include "attention/softmax.cuh"
#include "attention/storage.cuh"
#include "ptx/fence.cuh"
#include "ptx/ldst.cuh"
#include "ptx/tma.cuh"
#include "tile/fragment.cuh"
#include "tile/swizzle.cuh"

namespace tandem::attention {

template <ForwardSpec kSpec>
class Epilogue {
 public:
  static constexpr int kRowsOfWarp = 16;
  static constexpr bool kStaged = kSpec.output_stage != OutputStage::registers;
  using Output = float[kSpec.head_dim_v / 2];

  TANDEM_DEVICE explicit Epilogue(const ForwardParams& params) : params_(params) {}

  // `row_in_tile`: first row of this warp. `buffer`: the staging tile, unused for registers.
  TANDEM_DEVICE void store(const TileInfo& tile, int row_in_tile, const Output& r_o, Softmax<kSpec>& softmax, unsigned char* buffer) const {
    const int first_row = tile.m_block * kSpec.block_m() + row_in_tile, lane = ptx::lane_index();
    const float sink = sink_of(params_, tile);
    float scale[tile::kRowsOfThread];
#pragma unroll
    for (int row = 0; row < tile::kRowsOfThread; ++row) {
      float lse;
      scale[row] = softmax.finish(row, lse, sink);
      const int query = first_row + lane / 4 + 8 * row;
      if (params_.lse != nullptr && lane % 4 == 0 && query < seqlen_q(tile)) ptx::store_global(lse_row(params_, tile) + query, lse);
    }
    if constexpr (kStaged)
      store_through_shared(tile, r_o, scale, buffer, row_in_tile, lane);
    else
      store_from_registers(tile, r_o, scale, first_row, lane);
  }

  // -inf: none. Rows outside all sequences have none.
  TANDEM_DEVICE static float sink_of(const ForwardParams& params, const TileInfo& tile) {
    const bool exists = params.sinks != nullptr && !(kSpec.ragged && tile.k_batch == kNoSequence);
    return ptx::load_global_or(exists ? params.sinks + ptx::warp_uniform(tile.head) : nullptr, -ptx::infinity());
  }

  // LSE of the first query of the tile's sequence and head.
  TANDEM_DEVICE static float* lse_row(const ForwardParams& params, const TileInfo& tile) {
    float* row = params.lse + tile.batch * params.lse_stride_batch + tile.head * params.lse_stride_head;
    if constexpr (kSpec.ragged) row += tile.q_end - tile.seqlen_q;
    return row;
  }

  // Before the staging buffer is written again or handed back: the stores that read it have done so.
  TANDEM_DEVICE void wait_buffer_free() const {
    if constexpr (kStaged) {
      if (ptx::lane_index() == 0) ptx::tma_store_wait_read<0>();
      ptx::warp_sync();
    }
  }

 private:
  static constexpr bool kBf16 = kSpec.dtype == DType::bf16;

  TANDEM_DEVICE int seqlen_q(const TileInfo& tile) const { return kSpec.ragged ? tile.seqlen_q : params_.seqlen_q; }

  // Two neighbouring columns of one row, normalised. A row that saw no key has scale 0 and is 0 even where V holds NaN.
  TANDEM_DEVICE static u32 packed(const Output& r_o, const float (&scale)[2], int row, int pair) {
    const float low = r_o[tile::accumulator_index(row, 2 * pair)], high = r_o[tile::accumulator_index(row, 2 * pair + 1)];
    return scale[row] == 0.0f ? 0u : ptx::cvt_pack<kBf16>(low * scale[row], high * scale[row]);
  }

  TANDEM_DEVICE void store_through_shared(const TileInfo& tile, const Output& r_o, const float (&scale)[2], unsigned char* buffer, int row_in_tile,
                                          int lane) const {
    const int first_row = tile.m_block * kSpec.block_m() + row_in_tile;
    constexpr int kChunkBytes = tile::chunk_bytes(kSpec.block_m());
    // Lanes 0-7 address rows 0-7 of the first 8 columns, 8-15 rows 8-15 of them, 16-31 the same rows of the next 8 columns.
    const int row = row_in_tile + lane % 16;
    const u32 base = ptx::shared_address(buffer);
#pragma unroll
    for (int pair = 0; pair < kSpec.head_dim_v / 8; pair += 2) {
      const int piece = pair % 8 + lane / 16;
      // A lone last piece takes columns that do not exist with it; the buffer has room for them, and TMA drops them.
      const auto word = [&](int r, int p) { return p < kSpec.head_dim_v / 8 ? packed(r_o, scale, r, p) : 0u; };
      ptx::stmatrix_x4(base + (pair / 8) * kChunkBytes + tile::swizzled_offset(row, piece), word(0, pair), word(1, pair), word(0, pair + 1), word(1, pair + 1));
    }
    ptx::fence_proxy_async_shared();  // ordinary stores above, TMA below
    ptx::warp_sync();
    if (lane == 0) {
      if (first_row < seqlen_q(tile)) {
#pragma unroll
        for (int chunk = 0; chunk < tile::chunks_of(kSpec.head_dim_v); ++chunk)
          store_rows<kSpec>(params_.out_maps.of(chunk, kSpec.head_dim_v, params_.v_columns), buffer + chunk * kChunkBytes + row_in_tile * tile::kRowBytes,
                            chunk * tile::kChunkColumns, query_rows<kSpec>(params_, tile), first_row, tile.head);
      }
      ptx::tma_store_commit();
    }
  }

  // The quad holds 8 neighbouring columns as four words; four such groups are exchanged so that each thread gets one group, 16 bytes, whole.
  TANDEM_DEVICE void store_from_registers(const TileInfo& tile, const Output& r_o, const float (&scale)[2], int first_row, int lane) const {
    u16* out = static_cast<u16*>(params_.out.data) + tile.batch * params_.out.stride_batch + tile.head * params_.out.stride_head;
    if constexpr (kSpec.ragged) out += (tile.q_end - tile.seqlen_q) * params_.out.stride_row;
    const int in_quad = lane % 4;
#pragma unroll
    for (int row = 0; row < tile::kRowsOfThread; ++row) {
      const int query = first_row + lane / 4 + 8 * row;
      u16* out_row = out + query * params_.out.stride_row;
#pragma unroll
      for (int group = 0; group < kSpec.head_dim_v / 8; group += 4) {
        u32 word[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) word[i] = group + i < kSpec.head_dim_v / 8 ? packed(r_o, scale, row, group + i) : 0u;
        transpose_in_quad(word, in_quad);
        const int column = (group + in_quad) * 8;
        if (query < seqlen_q(tile) && column < params_.head_dim_v) ptx::store_global_16b(out_row + column, word[0], word[1], word[2], word[3]);
      }
    }
  }

  // word[i] of thread t becomes word[t] of thread i, in two exchanges of two words.
  TANDEM_DEVICE static void transpose_in_quad(u32 (&word)[4], int in_quad) {
    exchange(word[0], word[1], (in_quad & 1) != 0, 1);
    exchange(word[2], word[3], (in_quad & 1) != 0, 1);
    exchange(word[0], word[2], (in_quad & 2) != 0, 2);
    exchange(word[1], word[3], (in_quad & 2) != 0, 2);
  }

  TANDEM_DEVICE static void exchange(u32& low, u32& high, bool upper, int distance) {
    const u32 received = ptx::shuffle_xor(upper ? low : high, distance);
    (upper ? low : high) = received;
  }

  const ForwardParams& params_;
};

}  // namespace tandem::attention
