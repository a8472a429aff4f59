// What a forward launch passes to the kernel: one struct, made by the host. Plain C++20, shared with the host.
#pragma once
#include "attention/tile_list.hpp"
#include "ptx/tensor_map.hpp"
#include "tile/layout.hpp"

namespace tandem {

// n / divisor for 0 <= n < 2^31 by one multiplication: q = (n + high(n * multiplier)) >> shift.
struct FastDivisor {
  int divisor = 1;
  unsigned multiplier = 1;
  unsigned shift = 0;

  constexpr FastDivisor() = default;
  constexpr explicit FastDivisor(int d) : divisor(d) {
    while ((1ull << shift) < static_cast<unsigned long long>(d)) ++shift;
    multiplier = static_cast<unsigned>((((1ull << shift) - static_cast<unsigned long long>(d)) << 32) / static_cast<unsigned long long>(d) + 1);
  }
};

// Order of the tiles. (head, batch) pairs are grouped into sections whose K and V fit the L2 cache; inside a section the query blocks are
// outermost (the longest first when causal) and the pairs of the section innermost. Each section begins with its longest tiles, so the last one would
// leave most of the device idle at its end: therefore the shortest tiles of all pairs are kept for after it.
struct TileOrder {
  int tiles = 0;
  int m_blocks = 0;     // query tiles a head; pairs of tiles when the cluster has two blocks
  int held_back = 0;    // of them, the first ones of each head: after all sections. 0 unless causal, and with windows
  int in_sections = 0;  // tiles
  int pairs_per_section = 1;
  int last_section = 0;            // index of the last section, which may hold fewer pairs
  FastDivisor section_tiles;       // pairs_per_section * (m_blocks - held_back)
  FastDivisor section_pairs;       // pairs_per_section
  FastDivisor last_section_pairs;  // pairs of the last section
  FastDivisor pairs;               // all of them
  FastDivisor heads;
};

// Word that the dynamic scheduler counts in: the low half counts tiles handed out, the high half says that the workspace was initialised.
// Without that mark the kernel falls back to the static order: a workspace that nobody initialised costs time, never a result.
constexpr unsigned long long kCounterMark = 0x7a9de300ull << 32;

// A tensor (batch, row, head, column) by address; strides in elements, columns contiguous.
struct StridedTensor {
  void* data;
  long long stride_batch, stride_row, stride_head;
};

// Sides of windows and lengths of chunks that reach further than any key are cut to this much beyond the last one, open sides too. So no position
// plus or minus one of them leaves 32 bits. A comparison in the kernel could not see to that: of `w > p ? 0 : p - w` NVVM makes max(p - w, 0).
constexpr int kBeyondKeys = 256;

// Up to x = kGentle, x + kCubic x^3 is tanh(x) within 2^-11.5 of itself: closer than tanh.approx, 2^-10.9.
constexpr float kGentle = 0.35f, kCubic = -0.3203f;

// Tensor maps of a tensor by chunks of columns (tile/layout.hpp): whole ones, and the last one where the tensor does not fill it, whose boxes end with the
// tensor. Boxes have the tile's rows; those of the output 16.
struct ChunkMaps {
  TensorMap whole, last;

  // That of chunk `chunk` of a tile `tile_columns` wide, of a tensor with `columns`.
  constexpr const TensorMap& of(int chunk, int tile_columns, int columns) const {
    return chunk + 1 < tile::chunks_of(tile_columns) || columns % tile::kChunkColumns == 0 ? whole : last;
  }
};

struct ForwardParams {
  ChunkMaps q_maps, k_maps, v_maps, out_maps;
  StridedTensor q, k, v, out;
  float* lse;                                   // null: not wanted
  long long lse_stride_batch, lse_stride_head;  // elements
  unsigned long long* counter;                  // of the dynamic scheduler
  unsigned long long* timeline;                 // of a spec that notes it: timeline_bytes(grid), zeroed
  int seqlen_q, seqlen_k;                       // ragged: the rows of the tensors that hold the sequences
  int head_dim, head_dim_v;                     // columns that exist; the tiles may be 8 wider
  int q_columns, k_columns, v_columns;          // that a load brings of each row: those that exist, or those of the tile, with zeros
  float scale_log2;                             // softmax_scale * log2(e), positive; with a softcap softcap * log2(e)
  float cap_scale;                              // softmax_scale / softcap
  float gentle;                                 // scores up to this |S| may be capped by a cubic; -1: none
  const float* sinks;                           // a logit for each query head; null: none
  int window_left;                              // keys before its own position that a query sees
  int window_right;                             // and after it
  FastDivisor chunk;                            // positions of an attention chunk; a divisor of 0: none
  const TileList* tile_list;                    // of a ragged batch
  FastDivisor kv_group;                         // query heads a KV head
  TileOrder order;
};

}  // namespace tandem
