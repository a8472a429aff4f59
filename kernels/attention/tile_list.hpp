// The tiles of a ragged batch: made on the device from lengths that only the device knows (prepare.cuh), read by the forward kernel.
// Plain C++20, shared with the host, which gives it room by the bound below.
#pragma once

namespace tandem {

// A query tile of one sequence, for all heads.
struct alignas(16) TileEntry {
  int m_block;             // of the sequence
  int seqlen_q, seqlen_k;  // of the sequence
  int q_end, k_end;        // one past the sequence's last row, counted from the first row of its batch entry
  int q_batch, k_batch;    // batch entry; 0 of packed tensors. k_batch is kNoSequence for rows that no sequence has
  int reserved;
};

constexpr int kNoSequence = -1;

// Weights of sequences by which the list is ordered, heaviest first: exact below 16 key blocks, then eight to an octave.
constexpr int kWeightBins = 256;

struct alignas(16) TileList {
  unsigned long long counter;  // of the dynamic scheduler
  unsigned long long entries;
  unsigned long long bins[kWeightBins];  // tiles of sequences of this weight, then where their next one goes
  // TileEntry[capacity] follows
};

// Sequences begin and end inside tiles, and so do the rows between them that no sequence has.
constexpr long long tile_list_capacity(long long batch_of_q, long long rows_q, long long sequences, int block_m) {
  return batch_of_q * (rows_q / block_m) + 2 * sequences + 1;
}

constexpr long long tile_list_bytes(long long capacity) {
  return static_cast<long long>(sizeof(TileList)) + capacity * static_cast<long long>(sizeof(TileEntry));
}

constexpr int kPrepareThreads = 1024;

// What the kernel that makes the list needs.
struct PrepareParams {
  const int* cu_seqlens_q;  // null: not packed
  const int* cu_seqlens_k;
  const int* seqused_q;  // null: all tokens
  const int* seqused_k;
  TileList* list;
  int sequences;
  int rows_q, rows_k;    // of the tensors along seqlen
  int block_m, block_n;  // of the forward kernel
  int span;              // keys that the queries of one tile see at most
  int capacity;
};

}  // namespace tandem
