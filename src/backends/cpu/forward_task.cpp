#include "backends/cpu/forward_task.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tandem::cpu {
namespace {

// Rows [begin, end) of a sequence along one side, and where the next sequence's begin.
struct Range {
  std::int64_t begin, end, next, batch;
};

Range range_of(const std::int32_t* cu_seqlens, const std::int32_t* seqused, std::int64_t rows, std::int64_t sequence) {
  Range range{0, 0, rows, sequence};
  if (cu_seqlens != nullptr) {
    range.begin = std::clamp<std::int64_t>(cu_seqlens[sequence], 0, rows);
    range.next = std::clamp<std::int64_t>(cu_seqlens[sequence + 1], range.begin, rows);
    range.batch = 0;
  }
  const std::int64_t length = range.next - range.begin;
  range.end = range.begin + (seqused != nullptr ? std::clamp<std::int64_t>(seqused[sequence], 0, length) : length);
  return range;
}

// Sequences with their items, and the rows that none has. Returns how many there are.
std::size_t list_sequences(const ForwardProblem& problem, const ForwardCall& call, std::span<Sequence> list) {
  std::size_t count = 0;
  const auto add = [&](const Sequence& sequence) {
    if (sequence.seqlen_q > 0) list[count++] = sequence;
  };
  const auto add_outside = [&](std::int64_t batch, std::int64_t begin, std::int64_t end) {
    add({.q_batch = batch, .q_begin = begin, .seqlen_q = end - begin, .outside = true});
  };
  for (std::int64_t i = 0; i < problem.batch; ++i) {
    const Range q = range_of(call.cu_seqlens_q, call.seqused_q, problem.seqlen_q, i);
    const Range k = range_of(call.cu_seqlens_k, call.seqused_k, problem.seqlen_k, i);
    add({.q_batch = q.batch, .q_begin = q.begin, .seqlen_q = q.end - q.begin, .k_batch = k.batch, .k_begin = k.begin, .seqlen_k = k.end - k.begin});
    add_outside(q.batch, q.end, q.next);
  }
  if (call.cu_seqlens_q != nullptr) {
    const std::int64_t first = std::clamp<std::int64_t>(call.cu_seqlens_q[0], 0, problem.seqlen_q);
    const std::int64_t last = std::clamp<std::int64_t>(call.cu_seqlens_q[problem.batch], first, problem.seqlen_q);
    add_outside(0, 0, first);
    add_outside(0, last, problem.seqlen_q);
  }
  return count;
}

}  // namespace

Sequence ForwardTask::sequence_of(std::int64_t item) const {
  if (problem.ragged()) {
    const auto after = std::upper_bound(sequences.begin(), sequences.end(), item, [](std::int64_t i, const Sequence& s) { return i < s.first_item; });
    return *(after - 1);
  }
  Sequence sequence = uniform;
  const std::int64_t items_per_sequence = problem.num_heads_kv * uniform.items_per_head;
  sequence.q_batch = sequence.k_batch = item / items_per_sequence;
  sequence.first_item = sequence.q_batch * items_per_sequence;
  return sequence;
}

ForwardTask make_forward_task(const ForwardProblem& problem, const ForwardCall& call, std::int64_t rows_per_item, std::span<Sequence> room) {
  ForwardTask task;
  task.problem = problem;
  task.call = call;
  task.mask = {problem.window_left, problem.causal ? 0 : problem.window_right, problem.attention_chunk};

  task.group = problem.num_heads_kv == 0 ? 1 : problem.num_heads / problem.num_heads_kv;
  task.rows_per_item = rows_per_item;
  const auto items_per_head = [&](std::int64_t seqlen_q) { return (seqlen_q * task.group + rows_per_item - 1) / rows_per_item; };
  if (problem.ragged()) {
    const std::span<Sequence> list = room.first(list_sequences(problem, call, room));
    // The longest first, so that the last items to finish are short ones.
    std::sort(list.begin(), list.end(), [](const Sequence& a, const Sequence& b) { return a.seqlen_k > b.seqlen_k; });
    for (Sequence& sequence : list) {
      sequence.first_item = task.items;
      sequence.items_per_head = items_per_head(sequence.seqlen_q);
      task.items += problem.num_heads_kv * sequence.items_per_head;
    }
    task.sequences = list;
  } else {
    task.uniform = {.seqlen_q = problem.seqlen_q, .seqlen_k = problem.seqlen_k, .items_per_head = items_per_head(problem.seqlen_q)};
    task.items = problem.batch * problem.num_heads_kv * task.uniform.items_per_head;
  }

  const float scale = call.softmax_scale;
  if (scale >= 1.0f) {
    task.score_scale = scale;
  } else if (scale == 0.0f) {
    task.query_scale = 0.0f;  // scores are 0 even where Q times K alone would overflow
  } else {
    int exponent = 0;
    task.score_scale = 2.0f * std::frexp(scale, &exponent);  // [1, 2)
    task.query_scale = std::ldexp(1.0f, exponent - 1);
  }
  return task;
}

}  // namespace tandem::cpu
