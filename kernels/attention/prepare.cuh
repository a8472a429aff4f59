// Makes the list of tiles of a ragged batch, in one block: heavy sequences first, of each sequence the last queries first. Rows that no
// sequence has become tiles of sequences without keys, and so zeros. Lengths that contradict the tensors are cut to what the tensors have.
#pragma once
#include "attention/params.hpp"
#include "attention/tile_list.hpp"
#include "ptx/atomic.cuh"
#include "ptx/ldst.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/warp.cuh"

namespace tandem::attention {

class Prepare {
 public:
  TANDEM_DEVICE explicit Prepare(const PrepareParams& params) : params_(params) {}

  TANDEM_DEVICE void run() {
    const int thread = ptx::thread_index();
    TileList* const list = params_.list;
    if (thread < kWeightBins) ptx::store_global_relaxed(&list->bins[thread], 0);
    ptx::block_sync();
    for_each_piece([&](const Piece& piece) {
      if (piece.tiles > 0) ptx::atomic_add_global(&list->bins[bin_of(piece)], static_cast<u64>(piece.tiles));
    });
    ptx::block_sync();
    u64 before = 0;  // tiles of heavier bins
    if (thread < kWeightBins) {
#pragma unroll 8
      for (int bin = thread + 1; bin < kWeightBins; ++bin) before += ptx::load_global_relaxed(&list->bins[bin]);
    }
    u64 own = 0;
    if (thread < kWeightBins) own = ptx::load_global_relaxed(&list->bins[thread]);
    ptx::block_sync();  // all have read what is now overwritten
    if (thread < kWeightBins) ptx::store_global_relaxed(&list->bins[thread], before);
    if (thread == 0) {
      const u64 all = before + own;
      ptx::store_global_relaxed(&list->entries, all < static_cast<u64>(params_.capacity) ? all : static_cast<u64>(params_.capacity));
      ptx::store_global_relaxed(&list->counter, kCounterMark);
    }
    ptx::block_sync();
    for_each_piece([&](const Piece& piece) { write(piece); });
  }

 private:
  // A sequence, or rows that no sequence has: those have no keys.
  struct Piece {
    TileEntry entry;
    int tiles;
  };

  TANDEM_DEVICE static int clamp(int value, int low, int high) { return value < low ? low : value > high ? high : value; }
  TANDEM_DEVICE static int load(const int* array, int index) { return static_cast<int>(ptx::load_global_4b(array + index)); }

  // Rows [begin, end) of a sequence along one side, and where the next sequence's begin.
  struct Range {
    int begin, end, next, batch;
  };
  TANDEM_DEVICE static Range range_of(const int* cu_seqlens, const int* seqused, int rows, int sequence) {
    Range range{0, 0, rows, sequence};
    if (cu_seqlens != nullptr) {
      range.begin = clamp(load(cu_seqlens, sequence), 0, rows);
      range.next = clamp(load(cu_seqlens, sequence + 1), range.begin, rows);
      range.batch = 0;
    }
    const int length = range.next - range.begin;
    range.end = range.begin + (seqused != nullptr ? clamp(load(seqused, sequence), 0, length) : length);
    return range;
  }

  TANDEM_DEVICE Piece piece_of(const Range& q, int k_length, int k_end, int k_batch) const {
    const int length = q.end - q.begin;
    return {{0, length, k_length, q.end, k_end, q.batch, k_batch, 0}, (length + params_.block_m - 1) / params_.block_m};
  }

  // Each thread takes every kPrepareThreads-th sequence with the rows behind it. Thread 0 takes the packed rows outside all of them too.
  template <class Visit>
  TANDEM_DEVICE void for_each_piece(Visit&& visit) const {
#pragma unroll 1
    for (int sequence = ptx::thread_index(); sequence < params_.sequences; sequence += kPrepareThreads) {
      const Range q = range_of(params_.cu_seqlens_q, params_.seqused_q, params_.rows_q, sequence);
      const Range k = range_of(params_.cu_seqlens_k, params_.seqused_k, params_.rows_k, sequence);
      visit(piece_of(q, k.end - k.begin, k.end, k.batch));
      visit(piece_of({q.end, q.next, q.next, q.batch}, 0, 0, kNoSequence));
    }
    if (params_.cu_seqlens_q != nullptr && ptx::thread_index() == 0) {
      const int first = clamp(load(params_.cu_seqlens_q, 0), 0, params_.rows_q);
      const int last = clamp(load(params_.cu_seqlens_q, params_.sequences), first, params_.rows_q);
      visit(piece_of({0, first, first, 0}, 0, 0, kNoSequence));
      visit(piece_of({last, params_.rows_q, params_.rows_q, 0}, 0, 0, kNoSequence));
    }
  }

  TANDEM_DEVICE int bin_of(const Piece& piece) const {
    const int keys = piece.entry.seqlen_k < params_.span ? piece.entry.seqlen_k : params_.span;
    const int blocks = (keys + params_.block_n - 1) / params_.block_n;
    int octave = 0, mantissa = blocks;  // blocks = mantissa * 2^octave, rounded down
#pragma unroll 1
    while (mantissa >= 16) {
      mantissa >>= 1;
      ++octave;
    }
    return octave == 0 ? blocks : 16 + 8 * (octave - 1) + (mantissa - 8);
  }

  TANDEM_DEVICE void write(const Piece& piece) const {
    if (piece.tiles == 0) return;
    const u64 first = ptx::atomic_add_global(&params_.list->bins[bin_of(piece)], static_cast<u64>(piece.tiles));
    TileEntry* const entries = reinterpret_cast<TileEntry*>(params_.list + 1);
    const TileEntry& entry = piece.entry;
#pragma unroll 1
    for (int i = 0; i < piece.tiles; ++i) {
      if (first + static_cast<u64>(i) >= static_cast<u64>(params_.capacity)) return;  // lengths that contradict each other
      TileEntry* const at = entries + first + i;
      ptx::store_global_16b(at, word(piece.tiles - 1 - i), word(entry.seqlen_q), word(entry.seqlen_k), word(entry.q_end));
      ptx::store_global_16b(&at->k_end, word(entry.k_end), word(entry.q_batch), word(entry.k_batch), 0u);
    }
  }

  TANDEM_DEVICE static u32 word(int value) { return static_cast<u32>(value); }

  const PrepareParams& params_;
};

}  // namespace tandem::attention
