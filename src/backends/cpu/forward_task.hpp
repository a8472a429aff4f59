// One forward call cut into items that threads take: each is some query rows of one KV head of one sequence.
#pragma once

#include <cstdint>
#include <span>

#include "backends/cpu/key_range.hpp"
#include "common/tensor.hpp"

namespace tandem::cpu {

// The rows of a sequence, and its items.
struct Sequence {
  std::int64_t q_batch = 0, q_begin = 0, seqlen_q = 0;  // queries are rows q_begin ... of that batch entry
  std::int64_t k_batch = 0, k_begin = 0, seqlen_k = 0;
  std::int64_t first_item = 0, items_per_head = 0;  // of one KV head
  bool outside = false;                             // rows that no sequence has: they become 0, whatever there are for sinks
};

// The query heads that share a KV head are rows of one matrix: row r is query r / group of head r % group. A tile of K and V is read once
// for all of them, and neighbouring rows see nearly the same keys.
struct ForwardTask {
  ForwardProblem problem;
  ForwardCall call;
  Mask mask;

  std::int64_t group = 1;          // query heads of a KV head
  std::int64_t rows_per_item = 0;  // at most kMaxRowsPerItem
  std::int64_t items = 0;
  std::span<const Sequence> sequences;  // of a ragged batch, in the order of their items; else all are as `uniform`
  Sequence uniform;

  // softmax_scale = query_scale * score_scale. The first is a power of two at most 1, applied to Q before the product: exact, and the
  // product of large Q and K under a small scale does not overflow on the way.
  float query_scale = 1.0f;
  float score_scale = 1.0f;

  // The sequence that an item belongs to.
  Sequence sequence_of(std::int64_t item) const;
};

inline constexpr std::int64_t kMaxRowsPerItem = 256;

// What the sequences of a ragged batch may need room for: with each the rows behind it, and the rows before and after all of them.
inline std::int64_t max_sequences(const ForwardProblem& problem) { return problem.ragged() ? 2 * problem.batch + 2 : 0; }

// `room` holds max_sequences() and outlives the task. Lengths are read here, and cut to what the tensors have.
ForwardTask make_forward_task(const ForwardProblem& problem, const ForwardCall& call, std::int64_t rows_per_item, std::span<Sequence> room);

}  // namespace tandem::cpu
