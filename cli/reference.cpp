#include "reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <random>

#include "element.hpp"
#include "failure.hpp"
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
  bool sees_nothing = false;
};

// The rows of a task belong to one head of one sequence.
class Task {
 public:
  Task(const AttentionInputs& inputs, std::span<const RowId> rows) : in_(inputs), rows_(rows) {
    dim_ = inputs.q.shape[3];
    dim_v_ = inputs.v.shape[3];
    kv_head_ = rows.front().head / (inputs.q.shape[2] / inputs.k.shape[2]);
    sequence_ = rows.front().sequence;
    if (sequence_ < 0) {
      visible_.assign(rows.size(), KeyRange{});
      return;
    }
    k_rows_ = inputs.keys(sequence_);
    const std::int64_t seqlen_q = inputs.queries(sequence_).count;
    std::int64_t end = 0;
    first_key_ = k_rows_.count;
    for (const RowId& row : rows) {
      visible_.push_back(inputs.mask.visible(row.query, seqlen_q, k_rows_.count));
      if (visible_.back().count() == 0) continue;
      first_key_ = std::min(first_key_, visible_.back().first);
      end = std::max(end, visible_.back().end);
    }
    keys_ = std::max<std::int64_t>(end - first_key_, 0);
  }

  std::vector<RowResult> compute() {
    multiply_keys();
    std::vector<RowResult> results(rows_.size());
    for (std::size_t r = 0; r < rows_.size(); ++r) softmax(r, results[r]);
    multiply_values(results);
    return results;
  }

 private:
  // `key` counts from the first one that some row of the task sees.
  std::size_t score_index(std::size_t row, std::int64_t key) const { return row * static_cast<std::size_t>(keys_) + static_cast<std::size_t>(key); }
  std::int64_t row_of(std::int64_t key) const { return k_rows_.first + first_key_ + key; }
  KeyRange range(std::size_t row) const {
    return visible_[row].count() == 0 ? KeyRange{} : KeyRange{visible_[row].first - first_key_, visible_[row].end - first_key_};
  }

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
        in_.k.load_row(k_rows_.batch, row_of(first + j), kv_head_, key.data());
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
    const KeyRange keys = range(r);
    const bool sink = !in_.sinks.empty() && sequence_ >= 0;
    const double cap = static_cast<double>(in_.softcap);

    // A sink is a score that everyone sees and that has no value.
    const double sink_logit = sink ? static_cast<double>(in_.sinks[static_cast<std::size_t>(rows_[r].head)]) : -kInfinity;
    double top = sink_logit, standard_top = sink_logit;
    for (std::int64_t j = keys.first; j < keys.end; ++j) {
      exact[j] *= scale;
      double score = rounded(scale * static_cast<double>(standard[j]), type);
      if (cap > 0) {
        exact[j] = cap * std::tanh(exact[j] / cap);
        score = rounded(cap * rounded(std::tanh(rounded(score / cap, type)), type), type);
      }
      standard[j] = static_cast<float>(score);
      if (!(exact[j] <= top)) top = exact[j];  // a NaN stays
      if (!(score <= standard_top)) standard_top = score;
    }
    const auto own = [&](double maximum) { return sink_logit == -kInfinity ? 0.0 : std::exp(sink_logit - maximum); };
    double sum = own(top), standard_sum = own(standard_top);
    for (std::int64_t j = keys.first; j < keys.end; ++j) {
      exact[j] = std::exp(exact[j] - top);
      const double weight = std::exp(static_cast<double>(standard[j]) - standard_top);
      standard[j] = static_cast<float>(weight);
      sum += exact[j];
      standard_sum += weight;
    }
    for (std::int64_t j = keys.first; j < keys.end; ++j) {
      exact[j] /= sum;
      standard[j] = static_cast<float>(rounded(static_cast<double>(standard[j]) / standard_sum, type));
    }
    result.sees_nothing = keys.count() == 0;
    result.lse = result.sees_nothing ? sink_logit : top + std::log(sum);
  }

  void multiply_values(std::vector<RowResult>& results) {
    const auto width = static_cast<std::size_t>(dim_v_);
    std::vector<float> block(static_cast<std::size_t>(kKeysABlock) * width), sums(rows_.size() * width, 0.0f);
    for (RowResult& result : results) result.out.assign(width, 0.0);
    for (std::int64_t first = 0; first < keys_; first += kKeysABlock) {
      const std::int64_t count = std::min(kKeysABlock, keys_ - first);
      for (std::int64_t j = 0; j < count; ++j) in_.v.load_row(k_rows_.batch, row_of(first + j), kv_head_, block.data() + j * dim_v_);
      for (std::size_t r = 0; r < rows_.size(); ++r)
        for (std::int64_t j = std::max<std::int64_t>(range(r).first - first, 0); j < std::min(count, range(r).end - first); ++j) {
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
  std::int64_t dim_ = 0, dim_v_ = 0, kv_head_ = 0, sequence_ = -1;
  Rows k_rows_;
  std::int64_t first_key_ = 0, keys_ = 0;  // of the sequence: those that some row sees
  std::vector<KeyRange> visible_;
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

// Beside the rounding of sums in fp32: the tanh of the GPU is right to 2^-10.9, and a softcap is its factor.
double lse_tolerance(double lse, double score_magnitude, double softcap, DataType type) {
  const double tanh_error = softcap > 0 && type != DataType::fp32 ? 0x1p-10 * std::min(softcap, score_magnitude) : 0.0;
  return 2e-6 * (1.0 + std::fabs(lse)) + 1e-6 * score_magnitude + tanh_error;
}

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
  std::string place(const RowId& row) const {
    if (row.sequence < 0) return fmt::format("batch {} head {} row {} (of no sequence)", row.batch, row.head, row.row);
    if (in_.cu_seqlens_q) return fmt::format("sequence {} head {} query {} (row {})", row.sequence, row.head, row.query, row.row);
    return fmt::format("batch {} head {} query {}", row.batch, row.head, row.row);
  }

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
    if (result.sees_nothing && ours != 0) return blame(fmt::format("out at {} column {} is {}; the row sees no key and must be 0", place(row), d, ours));
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
    const double error = std::fabs(ours - result.lse),
                 allowed = lse_tolerance(result.lse, result.score_magnitude, static_cast<double>(in_.softcap), in_.q.type);
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

namespace {

Rows rows_of(const std::optional<Lengths>& cu_seqlens, const std::optional<Lengths>& seqused, std::int64_t rows, std::int64_t sequence) {
  const auto index = static_cast<std::size_t>(sequence);
  Rows result{.batch = sequence, .first = 0, .count = rows};
  if (cu_seqlens) {
    result.batch = 0;
    result.first = std::clamp<std::int64_t>((*cu_seqlens)[index], 0, rows);
    result.count = std::clamp<std::int64_t>((*cu_seqlens)[index + 1], result.first, rows) - result.first;
  }
  if (seqused) result.count = std::clamp<std::int64_t>((*seqused)[index], 0, result.count);
  return result;
}

// Rows of q that belong together: a sequence, or rows beside the sequences.
struct Piece {
  Rows rows;
  std::int64_t sequence = -1, keys = 0;
};

std::vector<Piece> pieces_of(const AttentionInputs& inputs) {
  std::vector<Piece> pieces;
  const std::int64_t rows = inputs.q.shape[1], count = inputs.sequences();
  const auto add = [&](const Piece& piece) {
    if (piece.rows.count > 0) pieces.push_back(piece);
  };
  std::int64_t reached = 0;  // packed
  for (std::int64_t sequence = 0; sequence < count; ++sequence) {
    const Rows own = inputs.queries(sequence);
    const std::int64_t before = inputs.cu_seqlens_q ? reached : 0;
    add({{own.batch, before, own.first - before}});
    add({own, sequence, inputs.keys(sequence).count});
    reached = own.first + own.count;
    if (!inputs.cu_seqlens_q) add({{own.batch, reached, rows - reached}});
  }
  if (inputs.cu_seqlens_q) add({{0, reached, rows - reached}});
  return pieces;
}

}  // namespace

std::int64_t AttentionInputs::sequences() const {
  if (cu_seqlens_q) return std::ssize(*cu_seqlens_q) - 1;
  return cu_seqlens_k ? std::ssize(*cu_seqlens_k) - 1 : q.shape[0];
}
Rows AttentionInputs::queries(std::int64_t sequence) const { return rows_of(cu_seqlens_q, seqused_q, q.shape[1], sequence); }
Rows AttentionInputs::keys(std::int64_t sequence) const { return rows_of(cu_seqlens_k, seqused_k, k.shape[1], sequence); }

void apply(const CallOptions& options, AttentionInputs& inputs) {
  inputs.mask.causal = inputs.mask.causal || options.causal;
  if (options.window) {
    inputs.mask.window_left = options.window->window_left;
    inputs.mask.window_right = options.window->window_right;
  }
  if (options.attention_chunk > 0) inputs.mask.attention_chunk = options.attention_chunk;
  if (options.softcap > 0) inputs.softcap = options.softcap;
  if (options.sinks) inputs.sinks = *options.sinks;
  const auto heads = static_cast<std::size_t>(inputs.q.shape[2]);
  if (inputs.sinks.size() == 1) inputs.sinks.assign(heads, inputs.sinks.front());
  if (!inputs.sinks.empty() && inputs.sinks.size() != heads)
    fail("sinks has {} numbers and q has {} heads; there must be one for each of them, or one for all", inputs.sinks.size(), heads);
  if (options.seqlens_q) inputs.cu_seqlens_q = cumulated("--seqlens-q", *options.seqlens_q);
  if (options.seqlens_k) inputs.cu_seqlens_k = cumulated("--seqlens-k", *options.seqlens_k);
  if (options.seqused_q) inputs.seqused_q = options.seqused_q;
  if (options.seqused_k) inputs.seqused_k = options.seqused_k;
  if (options.sm_margin > 0) inputs.sm_margin = options.sm_margin;
  inputs.batch_invariant = inputs.batch_invariant || options.batch_invariant;
}

void check_lengths(const AttentionInputs& inputs) {
  const std::int64_t sequences = inputs.sequences();
  const auto check_side = [&](const char* side, const std::optional<Lengths>& cu_seqlens, const std::optional<Lengths>& seqused, const HostTensor& tensor) {
    if (cu_seqlens) {
      if (cu_seqlens->empty() || cu_seqlens->front() != 0)
        fail("cu_seqlens_{} must begin with 0: sequence b has the rows from its number b to its number b + 1", side);
      if (tensor.shape[0] != 1)
        fail("{} has shape {} and packed lengths; its batch axis must be 1: sequences lie one after the other in (1, rows, heads, dim)", side,
             shape_text(tensor.shape));
      if (std::ssize(*cu_seqlens) - 1 != sequences)
        fail("cu_seqlens_{} is of {} sequences and cu_seqlens_q of {}; they must be as many", side, cu_seqlens->size() - 1, sequences);
      for (std::size_t i = 1; i < cu_seqlens->size(); ++i)
        if ((*cu_seqlens)[i] < (*cu_seqlens)[i - 1])
          fail("cu_seqlens_{} falls from {} to {} at its number {}; it must rise", side, (*cu_seqlens)[i - 1], (*cu_seqlens)[i], i);
      if (cu_seqlens->back() > tensor.shape[1]) fail("the lengths of packed {} add up to {} and it has {} rows", side, cu_seqlens->back(), tensor.shape[1]);
    } else if (inputs.cu_seqlens_q.has_value() != inputs.cu_seqlens_k.has_value() && tensor.shape[0] != sequences) {
      fail("{} has a batch axis of {} and the other side {} packed sequences; they must be as many", side, tensor.shape[0], sequences);
    }
    if (!seqused) return;
    if (std::ssize(*seqused) != sequences)
      fail("seqused_{} has {} lengths and there are {} sequences; there must be one for each", side, seqused->size(), sequences);
    for (std::int64_t i = 0; i < sequences; ++i) {
      const std::int64_t length = rows_of(cu_seqlens, std::nullopt, tensor.shape[1], i).count, used = (*seqused)[static_cast<std::size_t>(i)];
      if (used < 0 || used > length) fail("seqused_{} has {} for sequence {}; it must be 0 to {}, its length", side, used, i, length);
    }
  };
  check_side("q", inputs.cu_seqlens_q, inputs.seqused_q, inputs.q);
  check_side("k", inputs.cu_seqlens_k, inputs.seqused_k, inputs.k);
}

std::vector<RowId> choose_rows(const AttentionInputs& inputs, double budget, std::uint64_t seed) {
  const std::vector<Piece> pieces = pieces_of(inputs);
  const std::int64_t heads = inputs.q.shape[2], pairs = std::ssize(pieces) * heads;
  const double key_cost = static_cast<double>(inputs.q.shape[3] + inputs.v.shape[3]);
  double cost = 0, all_rows = 0;
  for (const Piece& piece : pieces) {
    const auto rows = static_cast<double>(piece.rows.count * heads);
    cost += rows * std::max(1.0, static_cast<double>(piece.keys) * key_cost);
    all_rows += rows;
  }
  std::vector<RowId> chosen;
  const auto choose = [&](std::int64_t pair, std::int64_t row) {
    const Piece& piece = pieces[static_cast<std::size_t>(pair / heads)];
    chosen.push_back({piece.rows.batch, pair % heads, piece.rows.first + row, piece.sequence, row});
  };
  const auto rows_in = [&](std::int64_t pair) { return pieces[static_cast<std::size_t>(pair / heads)].rows.count; };
  if (cost <= budget) {
    for (std::int64_t pair = 0; pair < pairs; ++pair)
      for (std::int64_t row = 0; row < rows_in(pair); ++row) choose(pair, row);
    return chosen;
  }

  constexpr std::int64_t kMostHeads = 16, kFewestRows = 24;
  std::mt19937_64 random(seed);
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); };
  const auto affordable = static_cast<std::int64_t>(budget / (cost / all_rows));
  const std::int64_t some_pairs = std::clamp<std::int64_t>(affordable / kFewestRows, 1, std::min(pairs, kMostHeads));
  std::vector<std::int64_t> chosen_pairs;
  for (std::int64_t i = 0; i < some_pairs; ++i) chosen_pairs.push_back(i == 0 ? 0 : i == 1 ? pairs - 1 : below(pairs));
  std::sort(chosen_pairs.begin(), chosen_pairs.end());
  chosen_pairs.erase(std::unique(chosen_pairs.begin(), chosen_pairs.end()), chosen_pairs.end());
  for (const std::int64_t pair : chosen_pairs) {
    const std::int64_t length = rows_in(pair);
    const std::int64_t some_rows = std::clamp<std::int64_t>(affordable / some_pairs, std::min(length, kFewestRows), length);
    const std::int64_t first_visible = length - pieces[static_cast<std::size_t>(pair / heads)].keys;  // stands at the first key
    std::vector<std::int64_t> rows;
    const auto add = [&](std::int64_t row) {
      if (row >= 0 && row < length) rows.push_back(row);
    };
    for (const std::int64_t row : {std::int64_t{0}, length - 1, first_visible - 1, first_visible, std::int64_t{63}, std::int64_t{64}, std::int64_t{127},
                                   std::int64_t{128}, std::int64_t{191}, std::int64_t{192}})
      add(row);
    // Where a window leaves the first key, and where the second chunk begins.
    for (const std::int64_t border : {inputs.mask.window_left + 1, inputs.mask.attention_chunk})
      if (border > 0 && border < length)
        for (const std::int64_t row : {first_visible + border - 1, first_visible + border}) add(row);
    while (std::ssize(rows) < some_rows) rows.push_back(below(length));
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    for (const std::int64_t row : rows) choose(pair, row);
  }
  return chosen;
}

Judgement judge(const AttentionInputs& inputs, const HostTensor& out, std::span<const float> lse, const std::vector<RowId>& rows) {
  std::vector<std::span<const RowId>> tasks;
  for (std::size_t first = 0; first < rows.size();) {
    std::size_t last = first;
    while (last < rows.size() && last - first < kRowsATask && rows[last].sequence == rows[first].sequence && rows[last].head == rows[first].head) ++last;
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
