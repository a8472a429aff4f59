#include "support/forward_case.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

namespace tandem::testing {
namespace {

std::int64_t random_length(Random& random) {
  // Both sides of every tile border, and the lengths that published tests use.
  if (random.chance(0.6)) {
    return random.pick<std::int64_t>({1, 2, 11, 63, 64, 65, 95, 96, 97, 99, 127, 128, 129, 191, 192, 193, 255, 256, 257, 384, 1763});
  }
  return 1 + random.below(random.chance(0.8) ? 300 : 1200);
}

std::int64_t random_head_dim(Random& random) {
  if (random.chance(0.5)) return random.pick<std::int64_t>({32, 64, 96, 128, 192, 256});
  return 8 * (1 + random.below(32));
}

// (query heads of a KV head, KV heads)
std::pair<std::int64_t, std::int64_t> random_heads(Random& random) {
  const std::int64_t ratio = random.pick<std::int64_t>({1, 1, 1, 2, 3, 4, 5, 7, 8, 12, 48, 71});
  return {ratio, ratio > 12 ? 1 : 1 + random.below(3)};
}

Layout random_layout(Random& random, bool written) {
  if (random.chance(0.3)) return Layout::bshd;
  const std::span<const Layout> all = all_layouts();
  while (true) {
    const Layout layout = all[static_cast<std::size_t>(random.below(std::ssize(all)))];
    if (!written || !is_expanded(layout)) return layout;
  }
}

double elements_of(const ForwardProblem& p) {
  return static_cast<double>(p.head_dim + p.head_dim_v) *
         static_cast<double>(p.batch_of_q() * p.num_heads * p.seqlen_q + p.batch_of_k() * p.num_heads_kv * p.seqlen_k);
}

// Cuts one factor after the other until the product is small enough, and so are the tensors, which take longer to make than to use.
constexpr double kMaxElements = 1e6;

void shrink(ForwardProblem& p, double max_flops) {
  while (flops_of(p) > max_flops || elements_of(p) > kMaxElements) {
    if (p.batch > 1) {
      p.batch /= 2;
    } else if (p.num_heads_kv > 1) {
      p.num_heads /= p.num_heads_kv;
      p.num_heads_kv = 1;
    } else if (p.seqlen_q >= p.seqlen_k && p.seqlen_q > 1) {
      p.seqlen_q = (p.seqlen_q + 1) / 2;
    } else if (p.seqlen_k > 1) {
      p.seqlen_k = (p.seqlen_k + 1) / 2;
    } else if (p.num_heads > 1) {
      p.num_heads = 1;
    } else {
      return;
    }
  }
}

using Lengths = std::vector<std::int32_t>;

// As many as `batch`, which may be none, and 0 now and then.
Lengths random_lengths(Random& random, std::int64_t batch, std::int64_t longest) {
  Lengths lengths;
  for (std::int64_t i = 0; i < batch; ++i) {
    const std::int64_t length = random.chance(0.1) ? 0 : random.chance(0.15) ? 1 : random_length(random);
    lengths.push_back(static_cast<std::int32_t>(std::min(length, longest)));
  }
  return lengths;
}

// Of each sequence all, none, or some.
Lengths random_part(Random& random, const Lengths& lengths) {
  Lengths part;
  for (const std::int32_t length : lengths)
    part.push_back(random.chance(0.2) ? length : random.chance(0.1) ? 0 : static_cast<std::int32_t>(random.below(length + 1)));
  return part;
}

std::int64_t random_reach(Random& random, std::int64_t longest) {
  if (random.chance(0.4)) return random.pick<std::int64_t>({-1, -1, 0, 1, 63, 64, 127, 128, 1'000'000'000});
  return random.below(longest + 2);
}

void add_random_masks(Random& random, ForwardCase& c, std::int64_t longest) {
  ForwardProblem& p = c.problem;
  p.causal = random.chance(0.4);
  if (random.chance(0.5)) {
    p.window_left = random_reach(random, longest);
    p.window_right = random_reach(random, longest);
  }
  if (random.chance(0.2)) p.attention_chunk = random.chance(0.5) ? random.pick<std::int64_t>({1, 50, 64, 96, 100}) : 1 + random.below(longest + 1);
  if (random.chance(0.25)) set_softcap(c, random.pick({0.5f, 5.0f, 15.0f, 50.0f, 1e4f}));
  if (random.chance(0.25)) {
    std::vector<float> sinks;
    for (std::int64_t i = 0; i < p.num_heads; ++i)
      sinks.push_back(random.chance(0.05) ? -std::numeric_limits<float>::infinity() : static_cast<float>(3.0 * random.normal()));
    set_sinks(c, std::move(sinks));
  }
}

std::int64_t total(const Lengths& lengths) { return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}); }

// Cumulated lengths, of which some begin behind rows that no sequence has.
Lengths random_packing(Random& random, const Lengths& lengths) {
  Lengths cu_seqlens = cumulated(lengths);
  if (random.chance(0.1)) {
    const auto shift = static_cast<std::int32_t>(random.below(70));
    for (std::int32_t& begin : cu_seqlens) begin += shift;
  }
  return cu_seqlens;
}

Lengths halved(Lengths lengths) {
  for (std::int32_t& length : lengths) length = (length + 1) / 2;
  return lengths;
}

// The batch of a case, of lengths that add up to at most `max_flops`.
void add_random_lengths(Random& random, ForwardCase& c, double max_flops) {
  ForwardProblem& p = c.problem;
  const std::int64_t batch = random.chance(0.03) ? 0 : random.pick<std::int64_t>({1, 2, 3, 4, 7, 33});
  Lengths q = random_lengths(random, batch, batch > 7 ? 130 : 1 << 20), k = random.chance(0.3) ? q : random_lengths(random, batch, batch > 7 ? 130 : 1 << 20);
  const auto cost = [&] {
    double pairs = 0.0;
    for (std::size_t i = 0; i < q.size(); ++i) pairs += static_cast<double>(q[i]) * static_cast<double>(k[i]);
    return 2.0 * pairs * static_cast<double>(p.num_heads * (p.head_dim + p.head_dim_v));
  };
  const auto elements = [&] {
    const auto largest = [&](const Lengths& lengths) {
      return std::max(total(lengths), batch == 0 ? 0 : batch * *std::max_element(lengths.begin(), lengths.end()));
    };
    return static_cast<double>((p.head_dim + p.head_dim_v) * (p.num_heads * largest(q) + p.num_heads_kv * largest(k)));
  };
  while (cost() > max_flops || elements() > kMaxElements) {
    if (total(q) <= batch && total(k) <= batch) {
      if (p.num_heads == 1) break;
      p.num_heads = p.num_heads_kv = 1;
      continue;
    }
    if (total(q) >= total(k))
      q = halved(std::move(q));
    else
      k = halved(std::move(k));
  }

  const auto padded = [&](const Lengths& lengths) {
    const std::int64_t longest = lengths.empty() ? random_length(random) : *std::max_element(lengths.begin(), lengths.end());
    return longest + (random.chance(0.3) ? random.below(20) : 0);
  };
  const auto tail = [&] { return random.chance(0.3) ? random.below(150) : 0; };
  const bool packed_q = random.chance(0.6), packed_k = random.chance(0.5);
  p.batch = batch;
  if (packed_q) {
    pack_q(c, random_packing(random, q));
    p.seqlen_q += tail();
    if (random.chance(0.5) && batch > 0) p.longest_q = *std::max_element(q.begin(), q.end());
  } else {
    p.seqlen_q = padded(q);
    use_q(c, q);
  }
  if (packed_k) {
    pack_k(c, random_packing(random, k));
    p.seqlen_k += tail();
    if (random.chance(0.5) && batch > 0) p.longest_k = *std::max_element(k.begin(), k.end());
  } else {
    p.seqlen_k = padded(k);
    use_k(c, k);
  }
  if (packed_q && random.chance(0.3)) use_q(c, random_part(random, q));
  if (packed_k && random.chance(0.3)) use_k(c, random_part(random, k));
}

void choose_layouts(Random& random, ForwardCase& c) {
  const bool plain = random.chance(0.3);  // enough cases that every backend takes
  c.q_layout = plain ? Layout::bshd : random_layout(random, false);
  c.k_layout = plain ? Layout::bshd : random_layout(random, false);
  c.v_layout = plain ? Layout::bshd : random_layout(random, false);
  c.out_layout = plain ? Layout::bshd : random_layout(random, true);
  c.lse = random.pick({LseOutput::contiguous, LseOutput::contiguous, LseOutput::padded, LseOutput::absent});
  c.softmax_scale = random.chance(0.7) ? usual_scale(c.problem.head_dim) : static_cast<float>(0.5 * random.uniform());
  c.values = random.pick({ValueKind::normal, ValueKind::normal, ValueKind::outliers, ValueKind::wide, ValueKind::tiny});
}

std::string describe_masks(const ForwardCase& c) {
  const ForwardProblem& p = c.problem;
  std::string text = p.causal ? "causal" : "full";
  if (p.window_left != -1 || p.window_right != -1) text += fmt::format(" window=({}, {})", p.window_left, p.window_right);
  if (p.attention_chunk > 0) text += fmt::format(" attention_chunk={}", p.attention_chunk);
  if (p.softcap) text += fmt::format(" softcap={}", c.softcap);
  if (p.sinks) text += fmt::format(" sinks=[{}]", fmt::join(c.sinks, ","));
  if (p.packed_q) text += fmt::format(" cu_seqlens_q=[{}]", fmt::join(c.cu_seqlens_q, ","));
  if (p.packed_k) text += fmt::format(" cu_seqlens_k=[{}]", fmt::join(c.cu_seqlens_k, ","));
  if (p.used_q) text += fmt::format(" seqused_q=[{}]", fmt::join(c.seqused_q, ","));
  if (p.used_k) text += fmt::format(" seqused_k=[{}]", fmt::join(c.seqused_k, ","));
  if (p.longest_q > 0) text += fmt::format(" max_seqlen_q={}", p.longest_q);
  if (p.longest_k > 0) text += fmt::format(" max_seqlen_k={}", p.longest_k);
  if (p.sm_margin > 0) text += fmt::format(" sm_margin={}", p.sm_margin);
  if (p.batch_invariant) text += " batch_invariant";
  return text;
}

// What no sequence has becomes NaN.
void poison(Values& values, const auto& is_used) {
  for (std::int64_t b = 0; b < values.shape[0]; ++b)
    for (std::int64_t s = 0; s < values.shape[1]; ++s)
      if (!is_used(b, s))
        std::fill_n(values.data.begin() + static_cast<std::ptrdiff_t>(values.index(b, s, 0, 0)), values.shape[2] * values.shape[3],
                    std::numeric_limits<float>::quiet_NaN());
}

}  // namespace

std::string describe(const ForwardCase& c) {
  const ForwardProblem& p = c.problem;
  const char* const lse = c.lse == LseOutput::contiguous ? "contiguous" : c.lse == LseOutput::padded ? "padded" : "absent";
  return fmt::format(
      "{} batch={} seqlen_q={} seqlen_k={} heads={}/{} head_dim={}/{} {} softmax_scale={} layouts: q={} k={} v={} out={} lse={} values={} seed={}",
      name_of(p.type), p.batch, p.seqlen_q, p.seqlen_k, p.num_heads, p.num_heads_kv, p.head_dim, p.head_dim_v, describe_masks(c), c.softmax_scale,
      name_of(c.q_layout), name_of(c.k_layout), name_of(c.v_layout), name_of(c.out_layout), lse, name_of(c.values), c.seed);
}

Sequences::Sequences(const ForwardCase& c) : rows_q_(c.problem.seqlen_q), rows_k_(c.problem.seqlen_k) {
  const ForwardProblem& p = c.problem;
  for (std::int64_t i = 0; i < p.batch; ++i) {
    const auto at = static_cast<std::size_t>(i);
    Sequence s{.q_batch = i, .seqlen_q = p.seqlen_q, .k_batch = i, .seqlen_k = p.seqlen_k};
    if (p.packed_q) {
      s.q_batch = 0;
      s.q_begin = c.cu_seqlens_q[at];
      s.seqlen_q = c.cu_seqlens_q[at + 1] - s.q_begin;
    }
    if (p.packed_k) {
      s.k_batch = 0;
      s.k_begin = c.cu_seqlens_k[at];
      s.seqlen_k = c.cu_seqlens_k[at + 1] - s.k_begin;
    }
    if (p.used_q) s.seqlen_q = c.seqused_q[at];
    if (p.used_k) s.seqlen_k = c.seqused_k[at];
    all_.push_back(s);
  }
  if (!p.ragged()) return;
  sequence_of_row_.assign(static_cast<std::size_t>(p.batch_of_q() * rows_q_), -1);
  key_used_.assign(static_cast<std::size_t>(p.batch_of_k() * rows_k_), false);
  for (std::size_t i = 0; i < all_.size(); ++i) {
    const Sequence& s = all_[i];
    const auto q = sequence_of_row_.begin() + s.q_batch * rows_q_ + s.q_begin;
    const auto k = key_used_.begin() + s.k_batch * rows_k_ + s.k_begin;
    std::fill(q, q + s.seqlen_q, static_cast<std::int32_t>(i));
    std::fill(k, k + s.seqlen_k, true);
  }
}

const Sequence* Sequences::of(std::int64_t q_batch, std::int64_t row) const {
  if (sequence_of_row_.empty()) return &all_[static_cast<std::size_t>(q_batch)];
  const std::int32_t sequence = sequence_of_row_[static_cast<std::size_t>(q_batch * rows_q_ + row)];
  return sequence < 0 ? nullptr : &all_[static_cast<std::size_t>(sequence)];
}

std::int64_t Sequences::longest_k() const {
  std::int64_t longest = 0;
  for (const Sequence& s : all_) longest = std::max(longest, s.seqlen_k);
  return longest;
}

double flops_of(const ForwardCase& c) {
  double pairs = 0.0;
  const Sequences sequences(c);
  for (const Sequence& s : sequences.all()) pairs += static_cast<double>(s.seqlen_q) * static_cast<double>(s.seqlen_k);
  return 2.0 * pairs * static_cast<double>(c.problem.num_heads * (c.problem.head_dim + c.problem.head_dim_v));
}

double flops_of(const ForwardProblem& p) {
  return 2.0 * static_cast<double>(p.batch_of_q()) * static_cast<double>(p.num_heads) * static_cast<double>(p.seqlen_q) * static_cast<double>(p.seqlen_k) *
         static_cast<double>(p.head_dim + p.head_dim_v);
}

ForwardInputs make_inputs(const ForwardCase& c) {
  const ForwardProblem& p = c.problem;
  Random random(c.seed);
  ForwardInputs inputs{HostTensor(p.type, q_shape(p), c.q_layout), HostTensor(p.type, k_shape(p), c.k_layout), HostTensor(p.type, v_shape(p), c.v_layout)};
  Values q = make_values(c.values, q_shape(p), random);
  Values k = make_values(c.values, k_shape(p), random);
  Values v = make_values(c.values, v_shape(p), random);
  if (p.ragged()) {
    const Sequences sequences(c);
    poison(q, [&](std::int64_t b, std::int64_t row) { return sequences.of(b, row) != nullptr; });
    const auto has_key = [&](std::int64_t b, std::int64_t row) { return sequences.has_key(b, row); };
    poison(k, has_key);
    poison(v, has_key);
  }
  inputs.q.set(q);
  inputs.k.set(k);
  inputs.v.set(v);
  return inputs;
}

void set_softcap(ForwardCase& c, float softcap) {
  c.problem.softcap = softcap > 0;
  c.softcap = softcap;
}

void set_sinks(ForwardCase& c, std::vector<float> sinks) {
  c.problem.sinks = true;
  c.sinks = std::move(sinks);
}

void pack_q(ForwardCase& c, std::vector<std::int32_t> cu_seqlens) {
  c.problem.packed_q = true;
  c.problem.batch = std::ssize(cu_seqlens) - 1;
  c.problem.seqlen_q = cu_seqlens.back();
  c.cu_seqlens_q = std::move(cu_seqlens);
}

void pack_k(ForwardCase& c, std::vector<std::int32_t> cu_seqlens) {
  c.problem.packed_k = true;
  c.problem.batch = std::ssize(cu_seqlens) - 1;
  c.problem.seqlen_k = cu_seqlens.back();
  c.cu_seqlens_k = std::move(cu_seqlens);
}

void use_q(ForwardCase& c, std::vector<std::int32_t> seqused) {
  c.problem.used_q = true;
  c.seqused_q = std::move(seqused);
}

void use_k(ForwardCase& c, std::vector<std::int32_t> seqused) {
  c.problem.used_k = true;
  c.seqused_k = std::move(seqused);
}

std::vector<std::int32_t> cumulated(std::span<const std::int32_t> lengths) {
  std::vector<std::int32_t> sums{0};
  for (const std::int32_t length : lengths) sums.push_back(sums.back() + length);
  return sums;
}

ForwardProblem make_problem(ElementType type, const ProblemShape& s) {
  ForwardProblem p;
  p.type = type;
  p.batch = s.batch;
  p.seqlen_q = s.seqlen_q;
  p.seqlen_k = s.seqlen_k;
  p.num_heads = s.num_heads;
  p.num_heads_kv = s.num_heads_kv == 0 ? s.num_heads : s.num_heads_kv;
  p.head_dim = s.head_dim;
  p.head_dim_v = s.head_dim_v == 0 ? s.head_dim : s.head_dim_v;
  p.causal = s.causal;
  return p;
}

float usual_scale(std::int64_t head_dim) { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }

ForwardCase random_case(std::uint64_t seed, std::span<const ElementType> types, double max_flops) {
  Random random(seed);
  ForwardCase c;
  c.seed = seed;
  ForwardProblem& p = c.problem;
  p.type = types[static_cast<std::size_t>(random.below(std::ssize(types)))];
  p.batch = random.pick<std::int64_t>({1, 1, 1, 2, 3, 5});
  p.seqlen_q = random_length(random);
  p.seqlen_k = random.chance(0.3) ? p.seqlen_q : random_length(random);
  if (random.chance(0.03)) p.seqlen_k = 0;
  if (random.chance(0.02)) p.seqlen_q = 0;
  if (random.chance(0.02)) p.batch = 0;
  const auto [ratio, heads_kv] = random_heads(random);
  p.num_heads = ratio * heads_kv;
  p.num_heads_kv = heads_kv;
  p.head_dim = p.head_dim_v = random_head_dim(random);
  if (random.chance(0.1)) {
    p.head_dim = 192;
    p.head_dim_v = 128;
  }
  p.causal = random.chance(0.5);
  shrink(p, max_flops);

  choose_layouts(random, c);
  return c;
}

ForwardCase random_masked_case(std::uint64_t seed, std::span<const ElementType> types, double max_flops) {
  Random random(seed);
  ForwardCase c;
  c.seed = seed;
  ForwardProblem& p = c.problem;
  p.type = types[static_cast<std::size_t>(random.below(std::ssize(types)))];
  const auto [ratio, heads_kv] = random_heads(random);
  p.num_heads = ratio * heads_kv;
  p.num_heads_kv = heads_kv;
  // Few head dims: masks multiply the kernels that a backend may have to compile.
  p.head_dim = p.head_dim_v = random.chance(0.85) ? random.pick<std::int64_t>({64, 64, 128, 128, 256}) : random.pick<std::int64_t>({40, 96});
  if (random.chance(0.15)) std::tie(p.head_dim, p.head_dim_v) = random.pick<std::pair<std::int64_t, std::int64_t>>({{192, 128}, {64, 256}, {64, 512}});
  if (random.chance(0.65)) {
    add_random_lengths(random, c, max_flops);
  } else {
    p.batch = random.pick<std::int64_t>({1, 1, 2, 3});
    p.seqlen_q = random_length(random);
    p.seqlen_k = random.chance(0.3) ? p.seqlen_q : random_length(random);
    shrink(p, max_flops);
  }
  add_random_masks(random, c, std::max(p.seqlen_q, p.seqlen_k));
  p.batch_invariant = random.chance(0.1);
  if (random.chance(0.05)) p.sm_margin = static_cast<int>(random.below(200));
  choose_layouts(random, c);
  // An expanded axis of tokens would make rows that no sequence has those of one that is.
  if (p.ragged())
    for (Layout* const layout : {&c.q_layout, &c.k_layout, &c.v_layout})
      if (*layout == Layout::expanded_sequence || *layout == Layout::expanded_batch) *layout = Layout::bshd;
  return c;
}

}  // namespace tandem::testing
