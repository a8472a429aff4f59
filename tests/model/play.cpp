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

}  // namespace

ForwardCase case_for(const ForwardSpec& spec, std::int64_t seqlen_q, std::int64_t seqlen_k, std::int64_t batch, std::int64_t num_heads,
                     std::int64_t num_heads_kv) {
  ForwardCase c;
  c.problem = make_problem(spec.dtype == DType::bf16 ? ElementType::bf16 : ElementType::fp16, {.batch = batch,
                                                                                               .seqlen_q = seqlen_q,
                                                                                               .seqlen_k = seqlen_k,
                                                                                               .num_heads = num_heads,
                                                                                               .num_heads_kv = num_heads_kv,
                                                                                               .head_dim = spec.head_dim,
                                                                                               .head_dim_v = spec.head_dim_v,
                                                                                               .causal = spec.causal});
  c.softmax_scale = usual_scale(spec.head_dim);
  return c;
}

Play::Play(const ForwardSpec& spec, ForwardCase c) : spec_(spec), case_(std::move(c)), inputs_(make_inputs(case_)) {
  const Values q = inputs_.q.values(), k = inputs_.k.values(), v = inputs_.v.values();
  const double scale = static_cast<double>(case_.softmax_scale);
  exact_ = reference_rows(case_.problem, q, k, v, scale, every_row(case_.problem), Arithmetic::exact);
  same_dtype_ = reference_rows(case_.problem, q, k, v, scale, every_row(case_.problem), Arithmetic::same_dtype);
}

std::optional<model::Diagnosis> Play::run(const model::KernelImage& kernel, std::uint64_t seed, model::Statistics* statistics) const {
  const ForwardProblem& p = case_.problem;
  HostTensor out(p.type, out_shape(p), case_.out_layout);
  ForwardResult result;
  result.plan = kernel.name;
  result.lse.assign(static_cast<std::size_t>(p.batch * p.num_heads * p.seqlen_q), std::numeric_limits<float>::quiet_NaN());

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
  launch.multiprocessors = multiprocessors;
  launch.seed = seed;
  model::LaunchReport report = model::run_forward(launch);
  if (statistics != nullptr) *statistics += report.statistics;
  if (!report.ok()) return std::move(report.diagnosis);

  result.out = out.values();
  const auto verdict = is_right(case_, result, exact_, same_dtype_);
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
