#include "support/reference.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>

#include "support/number_format.hpp"
#include "support/random.hpp"

namespace tandem::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Inputs {
  const ForwardCase& c;
  const Values &q, &k, &v;
};

struct RowResult {
  double lse = -kInfinity;
  double score_magnitude = 0.0, largest_score = 0.0;
  bool sees_keys = false;
};

// Eight partial sums, so that the compiler may use vectors.
template <class Sum, class Term>
Sum sum_over(std::int64_t n, Term&& term) {
  std::array<Sum, 8> partial{};
  std::int64_t d = 0;
  for (; d + 8 <= n; d += 8) {
    for (std::int64_t lane = 0; lane < 8; ++lane) partial[static_cast<std::size_t>(lane)] += term(d + lane);
  }
  for (; d < n; ++d) partial[0] += term(d);
  return std::accumulate(partial.begin(), partial.end(), Sum{0});
}

// `Sum` is the type that products are summed in; `round` what is stored between the steps.
template <class Sum, class Round>
RowResult compute_row(const Inputs& in, const Sequence* sequence, const Row& row, Round&& round, double* out) {
  const ForwardProblem& problem = in.c.problem;
  const std::int64_t head_dim = problem.head_dim, head_dim_v = problem.head_dim_v;
  const std::int64_t kv_head = row.head / (problem.num_heads / problem.num_heads_kv);
  const auto scale = static_cast<double>(in.c.softmax_scale), cap = static_cast<double>(in.c.softcap);
  const float* const q = in.q.row(row.batch, row.query, row.head);
  RowResult result;
  std::fill_n(out, head_dim_v, 0.0);
  if (sequence == nullptr) return result;

  // Scores of the visible keys. A key that is not visible takes no part at all.
  std::vector<std::int64_t> keys;
  std::vector<double> scores;
  for (std::int64_t key = 0; key < sequence->seqlen_k; ++key) {
    if (!is_visible(problem, *sequence, row.query - sequence->q_begin, key)) continue;
    const float* const k = in.k.row(sequence->k_batch, sequence->k_begin + key, kv_head);
    const auto product = [q, k](std::int64_t d) { return static_cast<Sum>(q[d]) * static_cast<Sum>(k[d]); };
    const Sum dot = sum_over<Sum>(head_dim, product);
    const Sum magnitude = sum_over<Sum>(head_dim, [product](std::int64_t d) { return std::abs(product(d)); });
    keys.push_back(key);
    double score = round(scale * static_cast<double>(dot));
    if (problem.softcap) score = round(cap * std::tanh(score / cap));
    scores.push_back(score);
    result.largest_score = std::max(result.largest_score, std::abs(score));
    result.score_magnitude = std::max(result.score_magnitude, scale * static_cast<double>(magnitude));
  }
  result.sees_keys = !keys.empty();

  const double sink = problem.sinks ? static_cast<double>(in.c.sinks[static_cast<std::size_t>(row.head)]) : -kInfinity;
  result.lse = sink;
  if (!result.sees_keys) return result;

  double row_max = sink;
  for (const double score : scores) row_max = std::max(row_max, score);
  std::vector<double> weights;
  for (const double score : scores) weights.push_back(std::exp(score - row_max));
  const double row_sum = std::accumulate(weights.begin(), weights.end(), sink == -kInfinity ? 0.0 : std::exp(sink - row_max));
  result.lse = row_max + std::log(row_sum);

  std::vector<Sum> sums(static_cast<std::size_t>(head_dim_v), 0);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto p = static_cast<Sum>(round(weights[i] / row_sum));
    const float* const v = in.v.row(sequence->k_batch, sequence->k_begin + keys[i], kv_head);
    for (std::int64_t d = 0; d < head_dim_v; ++d) sums[static_cast<std::size_t>(d)] += p * static_cast<Sum>(v[d]);
  }
  for (std::int64_t d = 0; d < head_dim_v; ++d) out[d] = round(static_cast<double>(sums[static_cast<std::size_t>(d)]));
  return result;
}

}  // namespace

bool is_visible(const ForwardProblem& problem, const Sequence& sequence, std::int64_t query, std::int64_t key) {
  const std::int64_t position = query + sequence.seqlen_k - sequence.seqlen_q;
  if (problem.causal && key > position) return false;
  if (problem.window_left >= 0 && position - key > problem.window_left) return false;
  if (problem.window_right >= 0 && key - position > problem.window_right) return false;
  if (const std::int64_t chunk = problem.attention_chunk; chunk > 0 && (position < 0 || key / chunk != position / chunk)) return false;
  return true;
}

bool sees_keys(const ForwardProblem& problem, const Sequence& sequence, std::int64_t query) {
  // No mask hides the key that a query stands at; one that stands before the first key sees that one or none.
  const std::int64_t position = query + sequence.seqlen_k - sequence.seqlen_q;
  return sequence.seqlen_k > 0 && is_visible(problem, sequence, query, std::max<std::int64_t>(position, 0));
}

ReferenceRows reference_rows(const ForwardProblem& problem, const Values& q, const Values& k, const Values& v, double scale, std::vector<Row> rows,
                             Arithmetic arithmetic) {
  ForwardCase c;
  c.problem = problem;
  c.softmax_scale = static_cast<float>(scale);
  return reference_rows(c, q, k, v, std::move(rows), arithmetic);
}

ReferenceRows reference_rows(const ForwardCase& c, const Values& q, const Values& k, const Values& v, std::vector<Row> rows, Arithmetic arithmetic) {
  const ForwardProblem& problem = c.problem;
  const std::size_t n = rows.size();
  ReferenceRows result;
  result.rows = std::move(rows);
  result.head_dim_v = problem.head_dim_v;
  result.out.resize(n * static_cast<std::size_t>(problem.head_dim_v));
  std::vector<RowResult> results(n);

  const Inputs inputs{c, q, k, v};
  const Sequences sequences(c);
  const ElementType type = problem.type;
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < n; i = next++) {
      const Row& row = result.rows[i];
      const Sequence* const sequence = sequences.of(row.batch, row.query);
      double* const out = result.out.data() + i * static_cast<std::size_t>(problem.head_dim_v);
      results[i] = arithmetic == Arithmetic::exact ? compute_row<double>(
                                                         inputs, sequence, row, [](double x) { return x; }, out)
                                                   : compute_row<float>(
                                                         inputs, sequence, row, [type](double x) { return round_to(type, x); }, out);
    }
  };
  std::vector<std::jthread> threads;
  // No more than a few: several tests run beside each other, and a container may have fewer cores than the machine.
  for (unsigned i = 1; i < std::min(std::thread::hardware_concurrency(), 8u) && i < n; ++i) threads.emplace_back(work);
  work();
  threads.clear();

  for (const RowResult& row : results) {
    result.lse.push_back(row.lse);
    result.score_magnitude.push_back(row.score_magnitude);
    result.largest_score.push_back(row.largest_score);
    result.sees_keys.push_back(row.sees_keys);
  }
  return result;
}

std::vector<Row> every_row(const ForwardProblem& problem) {
  std::vector<Row> rows;
  for (std::int64_t b = 0; b < problem.batch_of_q(); ++b) {
    for (std::int64_t h = 0; h < problem.num_heads; ++h) {
      for (std::int64_t i = 0; i < problem.seqlen_q; ++i) rows.push_back({b, h, i});
    }
  }
  return rows;
}

std::vector<Row> some_rows(const ForwardProblem& problem, std::int64_t limit, std::uint64_t seed) {
  const std::int64_t total = problem.batch_of_q() * problem.num_heads * problem.seqlen_q;
  if (total <= limit) return every_row(problem);
  std::vector<Row> rows;
  Random random(seed);
  const auto add = [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    if (i >= 0 && i < problem.seqlen_q && std::ssize(rows) < limit) rows.push_back({b, h, i});
  };
  const std::int64_t first_visible = problem.seqlen_q - problem.seqlen_k;  // under a causal mask
  for (const std::int64_t i : {std::int64_t{0}, problem.seqlen_q - 1, first_visible - 1, first_visible, std::int64_t{63}, std::int64_t{64}, std::int64_t{127},
                               std::int64_t{128}, std::int64_t{191}, std::int64_t{192}}) {
    add(0, 0, i);
    add(problem.batch - 1, problem.num_heads - 1, i);
  }
  while (std::ssize(rows) < limit) add(random.below(problem.batch), random.below(problem.num_heads), random.below(problem.seqlen_q));
  return rows;
}

std::vector<Row> some_rows(const ForwardCase& c, std::int64_t limit) {
  const ForwardProblem& problem = c.problem;
  const std::int64_t batch = problem.batch_of_q();
  if (!problem.ragged() || batch * problem.num_heads * problem.seqlen_q <= limit) return some_rows(problem, limit, c.seed);
  std::vector<Row> rows;
  Random random(c.seed);
  const Sequences sequences(c);
  const std::int64_t each = std::max<std::int64_t>(2, limit / (2 * std::max<std::int64_t>(1, problem.batch)));
  for (const Sequence& s : sequences.all()) {
    const auto add = [&](std::int64_t i) {
      if (i >= 0 && i < s.seqlen_q && std::ssize(rows) < limit) rows.push_back({s.q_batch, random.below(problem.num_heads), s.q_begin + i});
    };
    for (const std::int64_t i : {std::int64_t{0}, s.seqlen_q - 1, s.seqlen_q - s.seqlen_k}) add(i);
    for (std::int64_t i = 3; i < each && s.seqlen_q > 0; ++i) add(random.below(s.seqlen_q));
  }
  while (std::ssize(rows) < limit) rows.push_back({random.below(batch), random.below(problem.num_heads), random.below(problem.seqlen_q)});
  return rows;
}

}  // namespace tandem::testing
