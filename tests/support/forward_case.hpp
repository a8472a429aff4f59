// One forward call of a test: what is computed, how the tensors lie, what they hold. Everything follows from the fields, so a line of text
// is enough to run it again.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "common/tensor.hpp"
#include "support/layout.hpp"
#include "support/tensor.hpp"
#include "support/values.hpp"

namespace tandem::testing {

enum class LseOutput {
  contiguous,
  padded,  // strides larger than needed
  absent,
};

struct ForwardCase {
  ForwardProblem problem;
  Layout q_layout = Layout::bshd;
  Layout k_layout = Layout::bshd;
  Layout v_layout = Layout::bshd;
  Layout out_layout = Layout::bshd;
  LseOutput lse = LseOutput::contiguous;
  float softmax_scale = 0.125f;
  ValueKind values = ValueKind::normal;
  std::uint64_t seed = 1;
};

std::string describe(const ForwardCase& c);

inline Shape q_shape(const ForwardProblem& p) { return {p.batch, p.seqlen_q, p.num_heads, p.head_dim}; }
inline Shape k_shape(const ForwardProblem& p) { return {p.batch, p.seqlen_k, p.num_heads_kv, p.head_dim}; }
inline Shape v_shape(const ForwardProblem& p) { return {p.batch, p.seqlen_k, p.num_heads_kv, p.head_dim_v}; }
inline Shape out_shape(const ForwardProblem& p) { return {p.batch, p.seqlen_q, p.num_heads, p.head_dim_v}; }

// Multiplications and additions of the full product, masks not counted.
double flops_of(const ForwardProblem& problem);

struct ForwardInputs {
  HostTensor q, k, v;
};

ForwardInputs make_inputs(const ForwardCase& c);

// A problem by name, for tests that state one.
struct ProblemShape {
  std::int64_t batch = 1, seqlen_q = 1, seqlen_k = 1, num_heads = 1, num_heads_kv = 0, head_dim = 64, head_dim_v = 0;  // 0: as the other
  bool causal = false;
};
ForwardProblem make_problem(ElementType type, const ProblemShape& shape);

// 1 / sqrt(head_dim)
float usual_scale(std::int64_t head_dim);

// The seed decides all; lengths are cut until the product takes at most `max_flops`.
ForwardCase random_case(std::uint64_t seed, std::span<const ElementType> types, double max_flops);

}  // namespace tandem::testing
