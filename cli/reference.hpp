// Attention in fp64, row by row, and how near a result is to it: the judge behind `run --check` and `check`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "call_options.hpp"
#include "host_tensor.hpp"
#include "mask.hpp"

namespace tandem::cli {

// Rows first ... first + count - 1 of a batch entry.
struct Rows {
  std::int64_t batch = 0, first = 0, count = 0;
};

// One attention call with its inputs in host memory; the fields are those of tandem.h.
struct AttentionInputs {
  HostTensor q, k, v;
  float scale = 1.0f;
  Mask mask = {};
  float softcap = 0.0f;
  std::vector<float> sinks = {};  // a logit a head; empty: none
  std::optional<Lengths> cu_seqlens_q = {}, cu_seqlens_k = {}, seqused_q = {}, seqused_k = {};
  int sm_margin = 0;
  bool batch_invariant = false;

  bool ragged() const { return cu_seqlens_q || cu_seqlens_k || seqused_q || seqused_k; }
  std::int64_t sequences() const;
  // Of one sequence, cut to what the tensors have.
  Rows queries(std::int64_t sequence) const;
  Rows keys(std::int64_t sequence) const;
};

// The options as they are laid over a call: what they do not name stays. Fails with a sentence where they contradict the tensors.
void apply(const CallOptions& options, AttentionInputs& inputs);
// Whether the lengths are those of the tensors: who passes them by hand wants to know that they are not.
void check_lengths(const AttentionInputs& inputs);

// A row of the tensors, and which query of which sequence it is.
struct RowId {
  std::int64_t batch = 0, head = 0, row = 0;
  std::int64_t sequence = -1, query = 0;  // -1: no sequence has it, and it must be 0
};

// All rows if they cost at most `budget` multiplications, else rows of some heads: first, last, beside tile borders, and random ones.
std::vector<RowId> choose_rows(const AttentionInputs& inputs, double budget, std::uint64_t seed);

struct Judgement {
  bool right = false;
  std::string fault;  // a sentence, if not right
  std::int64_t rows_checked = 0, rows_total = 0;
  double out_error = 0, out_allowed = 0;  // max |ours - fp64|; twice the error of a standard implementation in the same dtype, and a little
  double out_rmse = 0, standard_rmse = 0;
  double lse_error = 0, lse_allowed = 0;  // of the row where the error is the largest part of what is allowed
};

// By contract 11. `out` as a run left it; `lse` is (batch, heads, seqlen_q), empty if it was not asked for.
Judgement judge(const AttentionInputs& inputs, const HostTensor& out, std::span<const float> lse, const std::vector<RowId>& rows);

}  // namespace tandem::cli
