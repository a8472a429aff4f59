// Attention in fp64, row by row, and how near a result is to it: the judge behind `run --check` and `check`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "host_tensor.hpp"

namespace tandem::cli {

// One attention call with its inputs in host memory.
struct AttentionInputs {
  HostTensor q, k, v;
  float scale = 1.0f;
  bool causal = false;
};

// Keys that a query sees (contract 2: masks are aligned at the bottom right).
std::int64_t visible_keys(const AttentionInputs& inputs, std::int64_t row);

struct RowId {
  std::int64_t batch = 0, head = 0, row = 0;
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
