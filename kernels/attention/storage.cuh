// All shared memory of a forward block: one struct, every buffer and barrier in it, arrival counts beside the barriers.
#pragma once
#include "attention/budget.hpp"
#include "attention/params.hpp"
#include "attention/spec.hpp"
#include "ptx/fence.cuh"
#include "tile/pipeline.cuh"
#include "tile/swizzle.cuh"

namespace tandem::attention {

// What the producer tells the consumers about a tile.
struct alignas(16) TileInfo {
  int m_block;
  int head;
  int batch;      // of q and out
  int end_block;  // key blocks are visited from the one before it down to Seqlens::first_block. kNoTile: no more tiles
  // Of a ragged batch: as in TileEntry.
  int seqlen_q, seqlen_k;
  int q_end, k_end;
  int k_batch;
  int reserved[3];  // a copy reads them
};
constexpr int kNoTile = -1;
constexpr int kTileSlots = 2;

template <ForwardSpec kSpec>
struct alignas(tile::kTileAlignment) ForwardStorage {
  static constexpr int kQBytes = tile::tile_bytes(kSpec.block_m(), kSpec.head_dim);
  static constexpr int kKBytes = tile::narrowed_tile_bytes(kSpec.block_n, kSpec.head_dim);
  static constexpr int kVBytes = tile::tile_bytes(kSpec.block_n, kSpec.head_dim_v);
  static constexpr int kOBytes = kSpec.output_stage == OutputStage::own ? tile::tile_bytes(kSpec.block_m(), kSpec.head_dim_v) : 0;

  alignas(tile::kTileAlignment) unsigned char q[kSpec.q_buffers][kQBytes];
  alignas(tile::kTileAlignment) unsigned char k[kSpec.stages][kKBytes];
  alignas(tile::kTileAlignment) unsigned char v[kSpec.stages][kVBytes];
  alignas(tile::kTileAlignment) unsigned char o[kOBytes == 0 ? 16 : kOBytes];

  tile::Ring<kSpec.q_buffers> q_ring;  // empty: every consumer warp
  tile::Ring<kSpec.stages> k_ring;     // empty: every consumer warp of every CTA of the cluster
  tile::Ring<kSpec.stages> v_ring;     // the same
  tile::Ring<kTileSlots> tile_ring;    // full: the producer's one thread; empty: every consumer thread
  TileInfo tiles[kTileSlots];

  TANDEM_DEVICE void init_barriers() {
    q_ring.init(kSpec.consumer_warps());
    k_ring.init(kSpec.consumer_warps() * kSpec.cluster);
    v_ring.init(kSpec.consumer_warps() * kSpec.cluster);
    tile_ring.init(32 * kSpec.consumer_warps());
  }

  // Loads bring the columns of the tensors. Where a tile is 8 wider, the piece of each row behind them is zero from here on. By all threads of the block.
  TANDEM_DEVICE void zero_beyond(const ForwardParams& params) {
    zero_beyond<kSpec.head_dim, tile::kRowBytes, kSpec.block_m()>(q, params.q_columns);
    zero_beyond<kSpec.head_dim, tile::last_chunk_columns(kSpec.head_dim) * 2, kSpec.block_n>(k, params.k_columns);
    zero_beyond<kSpec.head_dim_v, tile::kRowBytes, kSpec.block_n>(v, params.v_columns);
  }

 private:
  template <int kColumns, int kLastRowBytes, int kRows, int kTiles, int kTileBytes>
  TANDEM_DEVICE static void zero_beyond(unsigned char (&tiles)[kTiles][kTileBytes], int columns) {
    struct alignas(tile::kPieceBytes) Piece {
      u32 words[4];
    };
    constexpr int kLastChunk = tile::chunks_of(kColumns) - 1;
    if (columns >= kColumns) return;
    for (int i = ptx::thread_index(); i < kTiles * kRows; i += kSpec.threads()) {
      const u32 at = tile::swizzled_offset_in<kLastRowBytes>(i % kRows, columns % tile::kChunkColumns / tile::kPieceColumns);
      *reinterpret_cast<Piece*>(tiles[i / kRows] + kLastChunk * tile::chunk_bytes(kRows) + at) = {};
    }
    ptx::fence_proxy_async_shared();  // WGMMA reads them
  }
};

// Named barriers, by event. Id 0 is __syncthreads.
enum class NamedBarrier : int {
  turn = 1,             // turn + w: warpgroup w may go on; one for each of up to three consumer warpgroups
  query_rows_free = 4,  // query_rows_free + w: all warps of warpgroup w have finished their last QK
  count = 7,
};
static_assert(static_cast<int>(NamedBarrier::count) <= budget::kNamedBarriers);

}  // namespace tandem::attention
