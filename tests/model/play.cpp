#include "model/play.hpp"

#include <cstddef>
#include <limits>
#include <vector>

#include "forward/run.hpp"
#include "support/compare.hpp"

namespace tandem::testing {
namespace {

// A view of inputs that nobody writes to.
Tensor view(const HostTensor& tensor) { return tensor.view(const_cast<std::byte*>(tensor.bytes().data())); }

template <class T>
const T* address_if(bool is_there, const std::vector<T>& array) {
  return is_there ? array.data() : nullptr;
}

// Tokens of each of `batch` sequences of about `length`: the first is whole, the second has none, then halves and thirds. 0 queries and 0
// keys meet in different sequences.
std::vector<std::int32_t> uneven_lengths(std::int64_t length, std::int64_t batch, std::int64_t empty) {
  std::vector<std::int32_t> lengths;
  for (std::int64_t i = 0; i < batch; ++i) lengths.push_back(i == empty ? 0 : static_cast<std::int32_t>(length / (1 + i)));
  return lengths;
}

// A mask of two sides, of one side, or chunks; with causal a window to the left. The tensors' lengths choose.
void add_window(ForwardProblem& p) {
  const bool chunks = (p.seqlen_q + p.seqlen_k) % 3 == 0;
  if (chunks) p.attention_chunk = 50;
  if (p.causal) {
    if (!chunks) p.window_left = 40;
  } else {
    p.window_left = chunks ? -1 : 17;
    p.window_right = 5;
  }
}

// The case's lengths in another form: packed on both sides, on one, or used lengths of padded tensors.
void make_ragged(ForwardCase& c) {
  ForwardProblem& p = c.problem;
  const std::int64_t seqlen_q = p.seqlen_q, seqlen_k = p.seqlen_k;
  const std::int64_t batch = p.batch + 2;
  const std::vector<std::int32_t> q = uneven_lengths(seqlen_q, batch, 1), k = uneven_lengths(seqlen_k, batch, 2);
  p.batch = batch;
  const std::int64_t form = (seqlen_q + 2 * seqlen_k) % 4;
  if (form == 0 || form == 1) {
    pack_q(c, cumulated(q));
    p.seqlen_q += 3;  // rows that no sequence has
  } else {
    use_q(c, q);
  }
  if (form == 0 || form == 2)
    pack_k(c, cumulated(k));
  else
    use_k(c, k);
}

}  // namespace

ForwardCase case_for(const ForwardSpec& spec, std::int64_t seqlen_q, std::int64_t seqlen_k, std::int64_t batch, std::int64_t num_heads,
                     std::int64_t num_heads_kv, int missing_columns) {
  ForwardCase c;
  c.problem = make_problem(spec.dtype == DType::bf16 ? ElementType::bf16 : ElementType::fp16, {.batch = batch,
                                                                                               .seqlen_q = seqlen_q,
                                                                                               .seqlen_k = seqlen_k,
                                                                                               .num_heads = num_heads,
                                                                                               .num_heads_kv = num_heads_kv,
                                                                                               .head_dim = spec.head_dim - missing_columns,
                                                                                               .head_dim_v = spec.head_dim_v - missing_columns,
                                                                                               .causal = spec.causal});
  c.softmax_scale = usual_scale(spec.head_dim);
  if (spec.local) add_window(c.problem);
  if (spec.softcap) set_softcap(c, 5.0f);
  if (spec.ragged) make_ragged(c);
  if ((spec.local || spec.softcap || spec.ragged) && seqlen_q % 2 == 1) {
    std::vector<float> sinks;
    for (std::int64_t head = 0; head < num_heads; ++head) sinks.push_back(0.5f * static_cast<float>(head) - 0.25f);
    set_sinks(c, std::move(sinks));
  }
  return c;
}

Play::Play(const ForwardSpec& spec, ForwardCase c) : spec_(spec), case_(std::move(c)), inputs_(make_inputs(case_)) {
  const Values q = inputs_.q.values(), k = inputs_.k.values(), v = inputs_.v.values();
  exact_ = reference_rows(case_, q, k, v, every_row(case_.problem), Arithmetic::exact);
  same_dtype_ = reference_rows(case_, q, k, v, every_row(case_.problem), Arithmetic::same_dtype);
}

std::optional<model::Diagnosis> Play::run(const model::KernelImage& kernel, std::uint64_t seed, model::Statistics* statistics) const {
  const ForwardProblem& p = case_.problem;
  HostTensor out(p.type, out_shape(p), case_.out_layout);
  ForwardResult result;
  result.plan = kernel.name;
  result.lse.assign(static_cast<std::size_t>(p.batch_of_q() * p.num_heads * p.seqlen_q), std::numeric_limits<float>::quiet_NaN());

  model::ForwardLaunch launch;
  launch.kernel = &kernel;
  launch.spec = spec_;
  launch.problem = p;
  launch.call.q = view(inputs_.q);
  launch.call.k = view(inputs_.k);
  launch.call.v = view(inputs_.v);
  launch.call.out = view(out);
  launch.call.lse = result.lse.data();
  launch.call.lse_stride_batch = p.num_heads * p.seqlen_q;
  launch.call.lse_stride_head = p.seqlen_q;
  launch.call.softmax_scale = case_.softmax_scale;
  launch.call.softcap = case_.softcap;
  launch.call.sinks = address_if(p.sinks, case_.sinks);
  launch.call.cu_seqlens_q = address_if(p.packed_q, case_.cu_seqlens_q);
  launch.call.cu_seqlens_k = address_if(p.packed_k, case_.cu_seqlens_k);
  launch.call.seqused_q = address_if(p.used_q, case_.seqused_q);
  launch.call.seqused_k = address_if(p.used_k, case_.seqused_k);
  launch.multiprocessors = multiprocessors;
  launch.seed = seed;
  model::LaunchReport report = model::run_forward(launch);
  if (statistics != nullptr) *statistics += report.statistics;
  if (!report.ok()) return std::move(report.diagnosis);

  result.out = out.values();
  const auto verdict = is_right(case_, result, exact_, same_dtype_, nullptr, kTanhErrorOfModel);
  if (verdict && out.damaged_bytes() == 0) return std::nullopt;
  model::Diagnosis wrong;
  wrong.fault = model::Fault::wrong_result;
  wrong.object = "out";
  wrong.message = verdict ? "bytes outside the output were written" : verdict.message();
  wrong.kernel = kernel.name;
  wrong.seed = seed;
  return wrong;
}

}  // namespace tandem::testing
