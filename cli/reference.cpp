#include "reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <random>

#include "element.hpp"
#include "parallel.hpp"

namespace tandem::cli {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kKeysABlock = 256;  // converted at a time, so that they stay in the cache
constexpr std::size_t kRowsATask = 16;

// Of one row, exact and as a standard implementation computes it: sums in fp32; scores, weights and output rounded to the tensors' dtype.
struct RowResult {
  std::vector<double> out, standard_out;
  double lse = -kInfinity;
  double score_magnitude = 0;  // |q| |k| scale: rounding errors of scores are in proportion
};

// The rows of a task belong to one head of one batch entry.
class Task {
 public:
  Task(const AttentionInputs& inputs, std::span<const RowId> rows) : in_(inputs), rows_(rows) {
    dim_ = inputs.q.shape[3];
    dim_v_ = inputs.v.shape[3];
    kv_head_ = rows.front().head / (inputs.q.shape[2] / inputs.k.shape[2]);
    for (const RowId& row : rows) {
      visible_.push_back(visible_keys(inputs, row.row));
      keys_ = std::max(keys_, visible_.back());
    }
  }

  std::vector<RowResult> compute() {
    multiply_keys();
    std::vector<RowResult> results(rows_.size());
    for (std::size_t r = 0; r < rows_.size(); ++r) softmax(r, results[r]);
    multiply_values(results);
    return results;
  }

 private:
  std::size_t score_index(std::size_t row, std::int64_t key) const { return row * static_cast<std::size_t>(keys_) + static_cast<std::size_t>(key); }

  void multiply_keys() {
    exact_.assign(rows_.size() * static_cast<std::size_t>(keys_), 0.0);
    standard_.assign(exact_.size(), 0.0f);
    q_norm_.assign(rows_.size(), 0.0);
    std::vector<float> queries(rows_.size() * static_cast<std::size_t>(dim_));
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      float* const query = queries.data() + r * static_cast<std::size_t>(dim_);
      in_.q.load_row(rows_[r].batch, rows_[r].row, rows_[r].head, query);
      for (std::int64_t d = 0; d < dim_; ++d) q_norm_[r] += static_cast<double>(query[d]) * static_cast<double>(query[d]);
    }

    std::vector<float> key(static_cast<std::size_t>(dim_)), block(static_cast<std::size_t>(dim_ * kKeysABlock));  // transposed: (dim, keys)
    for (std::int64_t first = 0; first < keys_; first += kKeysABlock) {
      const std::int64_t count = std::min(kKeysABlock, keys_ - first);
      for (std::int64_t j = 0; j < count; ++j) {
        in_.k.load_row(rows_.front().batch, first + j, kv_head_, key.data());
        double norm = 0;
        for (std::int64_t d = 0; d < dim_; ++d) {
          block[static_cast<std::size_t>(d * kKeysABlock + j)] = key[static_cast<std::size_t>(d)];
          norm += static_cast<double>(key[static_cast<std::size_t>(d)]) * static_cast<double>(key[static_cast<std::size_t>(d)]);
        }
        if (norm > k_norm_) k_norm_ = norm;
      }
      for (std::size_t r = 0; r < rows_.size(); ++r) {
        double* const exact = exact_.data() + score_index(r, first);
        float* const standard = standard_.data() + score_index(r, first);
        for (std::int64_t d = 0; d < dim_; ++d) {
          const float q = queries[r * static_cast<std::size_t>(dim_) + static_cast<std::size_t>(d)];
          const float* const column = block.data() + d * kKeysABlock;
          for (std::int64_t j = 0; j < count; ++j) exact[j] += static_cast<double>(q) * static_cast<double>(column[j]);
          for (std::int64_t j = 0; j < count; ++j) standard[j] += q * column[j];
        }
      }
    }
  }

  // Scores become weights, in place.
  void softmax(std::size_t r, RowResult& result) {
    const double scale = static_cast<double>(in_.scale);
    const DataType type = in_.q.type;
    result.score_magnitude = scale * std::sqrt(q_norm_[r] * k_norm_);
    double* const exact = exact_.data() + score_index(r, 0);
    float* const standard = standard_.data() + score_index(r, 0);
    const std::int64_t count = visible_[r];

    double top = -kInfinity, standard_top = -kInfinity;
    for (std::int64_t j = 0; j < count; ++j) {
      exact[j] *= scale;
      standard[j] = static_cast<float>(rounded(scale * static_cast<double>(standard[j]), type));
      if (!(exact[j] <= top)) top = exact[j];  // a NaN stays
      if (!(static_cast<double>(standard[j]) <= standard_top)) standard_top = static_cast<double>(standard[j]);
    }
    double sum = 0, standard_sum = 0;
    for (std::int64_t j = 0; j < count; ++j) {
      exact[j] = std::exp(exact[j] - top);
      const double weight = std::exp(static_cast<double>(standard[j]) - standard_top);
      standard[j] = static_cast<float>(weight);
      sum += exact[j];
      standard_sum += weight;
    }
    for (std::int64_t j = 0; j < count; ++j) {
      exact[j] /= sum;
      standard[j] = static_cast<float>(rounded(static_cast<double>(standard[j]) / standard_sum, type));
    }
    if (count > 0) result.lse = top + std::log(sum);
  }

  void multiply_values(std::vector<RowResult>& results) {
    const auto width = static_cast<std::size_t>(dim_v_);
    std::vector<float> block(static_cast<std::size_t>(kKeysABlock) * width), sums(rows_.size() * width, 0.0f);
    for (RowResult& result : results) result.out.assign(width, 0.0);
    for (std::int64_t first = 0; first < keys_; first += kKeysABlock) {
      const std::int64_t count = std::min(kKeysABlock, keys_ - first);
      for (std::int64_t j = 0; j < count; ++j) in_.v.load_row(rows_.front().batch, first + j, kv_head_, block.data() + j * dim_v_);
      for (std::size_t r = 0; r < rows_.size(); ++r)
        for (std::int64_t j = 0; j < std::min(count, visible_[r] - first); ++j) {
          const double weight = exact_[score_index(r, first + j)];
          const float standard_weight = standard_[score_index(r, first + j)];
          const float* const value = block.data() + j * dim_v_;
          double* const out = results[r].out.data();
          float* const standard_out = sums.data() + r * width;
          for (std::int64_t d = 0; d < dim_v_; ++d) out[d] += weight * static_cast<double>(value[d]);
          for (std::int64_t d = 0; d < dim_v_; ++d) standard_out[d] += standard_weight * value[d];
        }
    }
    for (std::size_t r = 0; r < rows_.size(); ++r)
      for (std::size_t d = 0; d < width; ++d) results[r].standard_out.push_back(rounded(static_cast<double>(sums[r * width + d]), in_.q.type));
  }

  const AttentionInputs& in_;
  std::span<const RowId> rows_;
  std::int64_t dim_ = 0, dim_v_ = 0, kv_head_ = 0, keys_ = 0;
  std::vector<std::int64_t> visible_;
  std::vector<double> exact_, q_norm_;
  std::vector<float> standard_;
  double k_norm_ = 0;
};

enum class Kind { finite, nan, plus_infinity, minus_infinity };

Kind kind_of(double value) {
  if (std::isnan(value)) return Kind::nan;
  if (std::isinf(value)) return value > 0 ? Kind::plus_infinity : Kind::minus_infinity;
  return Kind::finite;
}

double unit_roundoff(DataType type) { return type == DataType::fp16 ? 0x1p-11 : type == DataType::bf16 ? 0x1p-8 : 0x1p-24; }
double smallest_subnormal(DataType type) { return type == DataType::fp16 ? 0x1p-24 : type == DataType::bf16 ? 0x1p-133 : 0x1p-149; }

// The small absolute term of contract 11: the standard implementation's error is a maximum over a few numbers and may be small by luck.
double small_term(DataType type, double largest_output, double score_magnitude) {
  const double rounding = std::max(unit_roundoff(type) * largest_output, smallest_subnormal(type));
  const double sums = 0x1p-20 * largest_output;
  // In fp32 the rounding of a score, which moves its weight, is no smaller than that of the result.
  return type == DataType::fp32 ? rounding + sums * (1.0 + 0.25 * score_magnitude) : rounding + sums;
}

double lse_tolerance(double lse, double score_magnitude) { return 2e-6 * (1.0 + std::fabs(lse)) + 1e-6 * score_magnitude; }

// Gathers what every row says.
class Judge {
 public:
  Judge(const AttentionInputs& inputs, const HostTensor& out, std::span<const float> lse) : in_(inputs), out_(out), lse_(lse) {}

  void add(const RowId& row, const RowResult& exact) {
    ++verdict_.rows_checked;
    magnitude_ = std::max(magnitude_, exact.score_magnitude);
    for (std::int64_t d = 0; d < out_.shape[3]; ++d) add_element(row, d, exact);
    if (!lse_.empty()) add_lse(row, exact);
  }

  Judgement verdict() && {
    verdict_.rows_total = in_.q.shape[0] * in_.q.shape[1] * in_.q.shape[2];
    verdict_.out_allowed = 2 * standard_error_ + small_term(in_.q.type, largest_, magnitude_);
    const double count = std::max(count_, 1.0);
    verdict_.out_rmse = std::sqrt(squares_ / count);
    verdict_.standard_rmse = std::sqrt(standard_squares_ / count);
    if (verdict_.fault.empty() && verdict_.out_error > verdict_.out_allowed)
      verdict_.fault = fmt::format("out at {} differs by {:.3g} from fp64; {:.3g} is allowed", worst_, verdict_.out_error, verdict_.out_allowed);
    verdict_.right = verdict_.fault.empty();
    return std::move(verdict_);
  }

 private:
  static std::string place(const RowId& row) { return fmt::format("batch {} head {} query {}", row.batch, row.head, row.row); }

  void blame(std::string fault) {
    if (verdict_.fault.empty()) verdict_.fault = std::move(fault);
  }

  void add_element(const RowId& row, std::int64_t d, const RowResult& result) {
    const double ours = load_element(out_.at(row.batch, row.row, row.head, d), out_.type);
    const double exact = result.out[static_cast<std::size_t>(d)], standard = result.standard_out[static_cast<std::size_t>(d)];
    // Where the result leaves the range of the type, an infinity is right.
    if (kind_of(ours) != kind_of(std::isfinite(exact) ? rounded(exact, out_.type) : exact))
      return blame(fmt::format("out at {} column {} is {}; fp64 says {}", place(row), d, ours, exact));
    if (!std::isfinite(ours)) return;
    if (visible_keys(in_, row.row) == 0 && ours != 0)
      return blame(fmt::format("out at {} column {} is {}; the row sees no key and must be 0", place(row), d, ours));
    const double error = std::fabs(ours - exact);
    if (error > verdict_.out_error) {
      verdict_.out_error = error;
      worst_ = fmt::format("{} column {}", place(row), d);
    }
    largest_ = std::max(largest_, std::fabs(exact));
    squares_ += error * error;
    ++count_;
    if (!std::isfinite(standard)) return;  // its scores overflowed; ours need not
    standard_error_ = std::max(standard_error_, std::fabs(standard - exact));
    standard_squares_ += (standard - exact) * (standard - exact);
  }

  void add_lse(const RowId& row, const RowResult& result) {
    const double ours = static_cast<double>(lse_[static_cast<std::size_t>((row.batch * in_.q.shape[2] + row.head) * in_.q.shape[1] + row.row)]);
    if (kind_of(ours) != kind_of(result.lse)) return blame(fmt::format("lse at {} is {}; fp64 says {}", place(row), ours, result.lse));
    if (!std::isfinite(ours)) return;
    const double error = std::fabs(ours - result.lse), allowed = lse_tolerance(result.lse, result.score_magnitude);
    if (error > allowed) blame(fmt::format("lse at {} is {} and fp64 says {}; a difference of {:.3g} is allowed", place(row), ours, result.lse, allowed));
    if (verdict_.lse_allowed == 0 || error * verdict_.lse_allowed > verdict_.lse_error * allowed) {
      verdict_.lse_error = error;
      verdict_.lse_allowed = allowed;
    }
  }

  const AttentionInputs& in_;
  const HostTensor& out_;
  std::span<const float> lse_;
  Judgement verdict_;
  std::string worst_;
  double standard_error_ = 0, largest_ = 0, magnitude_ = 0, squares_ = 0, standard_squares_ = 0, count_ = 0;
};

}  // namespace

std::int64_t visible_keys(const AttentionInputs& inputs, std::int64_t row) {
  const std::int64_t seqlen_q = inputs.q.shape[1], seqlen_k = inputs.k.shape[1];
  return inputs.causal ? std::clamp<std::int64_t>(row + 1 + seqlen_k - seqlen_q, 0, seqlen_k) : seqlen_k;
}

std::vector<RowId> choose_rows(const AttentionInputs& inputs, double budget, std::uint64_t seed) {
  const std::int64_t batch = inputs.q.shape[0], seqlen = inputs.q.shape[1], heads = inputs.q.shape[2];
  const std::int64_t pairs = batch * heads;
  const double row_cost = std::max(1.0, static_cast<double>(inputs.k.shape[1]) * static_cast<double>(inputs.q.shape[3] + inputs.v.shape[3]));
  std::vector<RowId> chosen;
  if (row_cost * static_cast<double>(pairs) * static_cast<double>(seqlen) <= budget) {
    for (std::int64_t pair = 0; pair < pairs; ++pair)
      for (std::int64_t row = 0; row < seqlen; ++row) chosen.push_back({pair / heads, pair % heads, row});
    return chosen;
  }

  constexpr std::int64_t kMostHeads = 16, kFewestRows = 24;
  std::mt19937_64 random(seed);
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); };
  const auto affordable = static_cast<std::int64_t>(budget / row_cost);
  const std::int64_t some_pairs = std::clamp<std::int64_t>(affordable / kFewestRows, 1, std::min(pairs, kMostHeads));
  const std::int64_t some_rows = std::clamp<std::int64_t>(affordable / some_pairs, std::min(seqlen, kFewestRows), seqlen);
  const std::int64_t first_visible = seqlen - inputs.k.shape[1];  // of a causal mask
  for (std::int64_t i = 0; i < some_pairs; ++i) {
    const std::int64_t pair = i == 0 ? 0 : i == 1 ? pairs - 1 : below(pairs);
    std::vector<std::int64_t> rows;
    for (const std::int64_t row : {std::int64_t{0}, seqlen - 1, first_visible - 1, first_visible, std::int64_t{63}, std::int64_t{64}, std::int64_t{127},
                                   std::int64_t{128}, std::int64_t{191}, std::int64_t{192}})
      if (row >= 0 && row < seqlen) rows.push_back(row);
    while (std::ssize(rows) < some_rows) rows.push_back(below(seqlen));
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    for (const std::int64_t row : rows) chosen.push_back({pair / heads, pair % heads, row});
  }
  return chosen;
}

Judgement judge(const AttentionInputs& inputs, const HostTensor& out, std::span<const float> lse, const std::vector<RowId>& rows) {
  std::vector<std::span<const RowId>> tasks;
  for (std::size_t first = 0; first < rows.size();) {
    std::size_t last = first;
    while (last < rows.size() && last - first < kRowsATask && rows[last].batch == rows[first].batch && rows[last].head == rows[first].head) ++last;
    tasks.emplace_back(rows.data() + first, last - first);
    first = last;
  }
  Judge verdict(inputs, out, lse);
  std::mutex mutex;
  parallel_for(tasks.size(), [&](std::size_t i) {
    const std::vector<RowResult> results = Task(inputs, tasks[i]).compute();
    const std::lock_guard lock(mutex);
    for (std::size_t r = 0; r < results.size(); ++r) verdict.add(tasks[i][r], results[r]);
  });
  return std::move(verdict).verdict();
}

}  // namespace tandem::cli
