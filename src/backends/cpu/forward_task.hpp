// One forward call cut into items that threads take: each is some query rows of one KV head.
#pragma once

#include <cstdint>

#include "backends/cpu/key_range.hpp"
#include "common/tensor.hpp"

namespace tandem::cpu {

// The query heads that share a KV head are rows of one matrix: row r is query r / group of head r % group. A tile of K and V is read once
// for all of them, and neighbouring rows see nearly the same keys.
struct ForwardTask {
  ForwardProblem problem;
  ForwardCall call;
  Window window;

  std::int64_t group = 1;           // query heads of a KV head
  std::int64_t rows = 0;            // seqlen_q * group
  std::int64_t rows_per_item = 0;   // at most kMaxRowsPerItem
  std::int64_t items_per_head = 0;  // of one KV head
  std::int64_t items = 0;

  // softmax_scale = query_scale * score_scale. The first is a power of two at most 1, applied to Q before the product: exact, and the
  // product of large Q and K under a small scale does not overflow on the way.
  float query_scale = 1.0f;
  float score_scale = 1.0f;
};

inline constexpr std::int64_t kMaxRowsPerItem = 256;

ForwardTask make_forward_task(const ForwardProblem& problem, const ForwardCall& call, std::int64_t rows_per_item);

}  // namespace tandem::cpu
