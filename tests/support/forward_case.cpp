#include "support/forward_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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
  return static_cast<double>(p.batch) * static_cast<double>(p.head_dim + p.head_dim_v) *
         static_cast<double>(p.num_heads * p.seqlen_q + p.num_heads_kv * p.seqlen_k);
}

// Cuts one factor after the other until the product is small enough, and so are the tensors, which take longer to make than to use.
void shrink(ForwardProblem& p, double max_flops) {
  constexpr double kMaxElements = 1e6;
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

}  // namespace

std::string describe(const ForwardCase& c) {
  const ForwardProblem& p = c.problem;
  const char* const lse = c.lse == LseOutput::contiguous ? "contiguous" : c.lse == LseOutput::padded ? "padded" : "absent";
  return fmt::format(
      "{} batch={} seqlen_q={} seqlen_k={} heads={}/{} head_dim={}/{} {} softmax_scale={} layouts: q={} k={} v={} out={} lse={} values={} seed={}",
      name_of(p.type), p.batch, p.seqlen_q, p.seqlen_k, p.num_heads, p.num_heads_kv, p.head_dim, p.head_dim_v, p.causal ? "causal" : "full", c.softmax_scale,
      name_of(c.q_layout), name_of(c.k_layout), name_of(c.v_layout), name_of(c.out_layout), lse, name_of(c.values), c.seed);
}

double flops_of(const ForwardProblem& p) {
  return 2.0 * static_cast<double>(p.batch) * static_cast<double>(p.num_heads) * static_cast<double>(p.seqlen_q) * static_cast<double>(p.seqlen_k) *
         static_cast<double>(p.head_dim + p.head_dim_v);
}

ForwardInputs make_inputs(const ForwardCase& c) {
  const ForwardProblem& p = c.problem;
  Random random(c.seed);
  ForwardInputs inputs{HostTensor(p.type, q_shape(p), c.q_layout), HostTensor(p.type, k_shape(p), c.k_layout), HostTensor(p.type, v_shape(p), c.v_layout)};
  inputs.q.set(make_values(c.values, q_shape(p), random));
  inputs.k.set(make_values(c.values, k_shape(p), random));
  inputs.v.set(make_values(c.values, v_shape(p), random));
  return inputs;
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

  const bool plain = random.chance(0.3);  // enough cases that every backend takes
  c.q_layout = plain ? Layout::bshd : random_layout(random, false);
  c.k_layout = plain ? Layout::bshd : random_layout(random, false);
  c.v_layout = plain ? Layout::bshd : random_layout(random, false);
  c.out_layout = plain ? Layout::bshd : random_layout(random, true);
  c.lse = random.pick({LseOutput::contiguous, LseOutput::contiguous, LseOutput::padded, LseOutput::absent});
  c.softmax_scale = random.chance(0.7) ? usual_scale(p.head_dim) : static_cast<float>(0.5 * random.uniform());
  c.values = random.pick({ValueKind::normal, ValueKind::normal, ValueKind::outliers, ValueKind::wide, ValueKind::tiny});
  return c;
}

}  // namespace tandem::testing
