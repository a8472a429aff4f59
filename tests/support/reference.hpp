// Attention as the contract writes it down, in fp64, row by row; and the same with 16-bit intermediates, against which errors are judged.
#pragma once

#include <cstdint>
#include <vector>

#include "support/forward_case.hpp"
#include "support/tensor.hpp"

namespace tandem::testing {

// One row of the output tensor: of packed sequences, batch is 0 and query a row among all of them.
struct Row {
  std::int64_t batch = 0, head = 0, query = 0;
};

enum class Arithmetic {
  exact,       // fp64 throughout
  same_dtype,  // sums in fp32; scores, weights and output rounded to the tensors' type, as a standard implementation stores them
};

struct ReferenceRows {
  std::vector<Row> rows;
  std::int64_t head_dim_v = 0;
  std::vector<double> out;  // (row, head_dim_v)
  std::vector<double> lse;
  std::vector<bool> sees_keys;
  // The largest sum of |q_d k_d| * scale over the visible keys, to which rounding errors of scores are in proportion.
  std::vector<double> score_magnitude;
  std::vector<double> largest_score;  // |score| of the visible keys, after a softcap
};

// Whether a query sees a key of its sequence (contract 2).
bool is_visible(const ForwardProblem& problem, const Sequence& sequence, std::int64_t query, std::int64_t key);
// Whether it sees any.
bool sees_keys(const ForwardProblem& problem, const Sequence& sequence, std::int64_t query);

ReferenceRows reference_rows(const ForwardCase& c, const Values& q, const Values& k, const Values& v, std::vector<Row> rows, Arithmetic arithmetic);
// Of a problem that is no more than its shape.
ReferenceRows reference_rows(const ForwardProblem& problem, const Values& q, const Values& k, const Values& v, double scale, std::vector<Row> rows,
                             Arithmetic arithmetic);

std::vector<Row> every_row(const ForwardProblem& problem);

// At most `limit` rows: all of them where they are few enough, else the first and the last of a sequence, those beside tile borders, and
// random ones.
std::vector<Row> some_rows(const ForwardProblem& problem, std::int64_t limit, std::uint64_t seed);
// The same of each sequence of a ragged batch, and rows that none has.
std::vector<Row> some_rows(const ForwardCase& c, std::int64_t limit);

}  // namespace tandem::testing
