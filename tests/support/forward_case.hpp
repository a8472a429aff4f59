// One forward call of a test: what is computed, how the tensors lie, what they hold. Everything follows from the fields, so a line of text
// is enough to run it again.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

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
  ForwardProblem problem;  // with windows as they are asked for: what they come to is for the library to find out
  Layout q_layout = Layout::bshd;
  Layout k_layout = Layout::bshd;
  Layout v_layout = Layout::bshd;
  Layout out_layout = Layout::bshd;
  LseOutput lse = LseOutput::contiguous;
  float softmax_scale = 0.125f;
  float softcap = 0.0f;      // with problem.softcap
  std::vector<float> sinks;  // with problem.sinks
  // With problem.packed_q, packed_k, used_q and used_k.
  std::vector<std::int32_t> cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k;
  ValueKind values = ValueKind::normal;
  std::uint64_t seed = 1;
};

std::string describe(const ForwardCase& c);

inline Shape q_shape(const ForwardProblem& p) { return {p.batch_of_q(), p.seqlen_q, p.num_heads, p.head_dim}; }
inline Shape k_shape(const ForwardProblem& p) { return {p.batch_of_k(), p.seqlen_k, p.num_heads_kv, p.head_dim}; }
inline Shape v_shape(const ForwardProblem& p) { return {p.batch_of_k(), p.seqlen_k, p.num_heads_kv, p.head_dim_v}; }
inline Shape out_shape(const ForwardProblem& p) { return {p.batch_of_q(), p.seqlen_q, p.num_heads, p.head_dim_v}; }

// Where a sequence lies in the tensors, and as much of it as is used.
struct Sequence {
  std::int64_t q_batch = 0, q_begin = 0, seqlen_q = 0;
  std::int64_t k_batch = 0, k_begin = 0, seqlen_k = 0;
};

// Of lengths that fit the tensors.
class Sequences {
 public:
  explicit Sequences(const ForwardCase& c);

  const std::vector<Sequence>& all() const { return all_; }
  // The sequence that has this row of q, or nullptr: none has.
  const Sequence* of(std::int64_t q_batch, std::int64_t row) const;
  // Whether some sequence of a ragged batch has this row of k and v.
  bool has_key(std::int64_t k_batch, std::int64_t row) const { return key_used_[static_cast<std::size_t>(k_batch * rows_k_ + row)]; }
  std::int64_t longest_k() const;

 private:
  std::int64_t rows_q_, rows_k_;
  std::vector<Sequence> all_;
  // Of a ragged batch; else each batch entry is a sequence.
  std::vector<std::int32_t> sequence_of_row_;  // -1: none
  std::vector<bool> key_used_;
};

// Multiplications and additions of the full product, masks not counted. Of a packed problem, of which the lengths are not known: as if
// every query saw every key.
double flops_of(const ForwardProblem& problem);
double flops_of(const ForwardCase& c);

struct ForwardInputs {
  HostTensor q, k, v;
};

// What no sequence has is NaN.
ForwardInputs make_inputs(const ForwardCase& c);

// Makes a problem with masks or a ragged batch out of a case. The lengths, and a batch for packed tensors, follow from the vectors.
void set_softcap(ForwardCase& c, float softcap);
void set_sinks(ForwardCase& c, std::vector<float> sinks);
void pack_q(ForwardCase& c, std::vector<std::int32_t> cu_seqlens);
void pack_k(ForwardCase& c, std::vector<std::int32_t> cu_seqlens);
void use_q(ForwardCase& c, std::vector<std::int32_t> seqused);
void use_k(ForwardCase& c, std::vector<std::int32_t> seqused);

// Sums from 0 on.
std::vector<std::int32_t> cumulated(std::span<const std::int32_t> lengths);

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

// The same with masks, softcap, sinks and lengths of every sequence, in any combination.
ForwardCase random_masked_case(std::uint64_t seed, std::span<const ElementType> types, double max_flops);

}  // namespace tandem::testing
