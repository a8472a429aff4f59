#include "support/forward_run.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "api/validate.hpp"

namespace tandem::testing {
namespace {

tandem_tensor to_c(const Tensor& tensor) {
  tandem_tensor c{};
  c.data = tensor.data;
  c.dtype = static_cast<std::int32_t>(tensor.type);
  std::copy(tensor.shape.begin(), tensor.shape.end(), c.shape);
  std::copy(tensor.stride.begin(), tensor.stride.end(), c.stride);
  return c;
}

std::size_t bytes_of(const HostTensor& tensor) { return tensor.bytes().size(); }

template <class T>
std::size_t bytes_of(const std::vector<T>& array) {
  return array.size() * sizeof(T);
}

// An array of the call that is there also if it is empty.
template <class T>
const T* address_if(bool is_there, const DeviceBuffer& memory) {
  return is_there ? static_cast<const T*>(memory.data()) : nullptr;
}

template <class T>
bool unchanged(TestDevice& device, const DeviceBuffer& memory, const std::vector<T>& array) {
  std::vector<T> now(array.size());
  device.download(now.data(), memory.data(), bytes_of(now));
  return bytes_of(now) == 0 || std::memcmp(now.data(), array.data(), bytes_of(now)) == 0;
}

bool unchanged(TestDevice& device, const DeviceBuffer& memory, const HostTensor& tensor) {
  std::vector<std::byte> now(memory.bytes());
  device.download(now.data(), memory.data(), now.size());
  return now == tensor.bytes();
}

}  // namespace

PreparedForward::LsePlacement PreparedForward::place_lse(const ForwardCase& c) {
  const ForwardProblem& p = c.problem;
  switch (c.lse) {
    case LseOutput::absent: break;
    case LseOutput::contiguous: return {0, 0, p.batch_of_q() * p.num_heads * p.seqlen_q};
    case LseOutput::padded: {
      const std::int64_t head = p.seqlen_q + 13;
      const std::int64_t batch = p.num_heads * head + 7;
      return {batch, head, p.batch_of_q() * batch};
    }
  }
  return {};
}

PreparedForward::PreparedForward(Backend& backend, TestDevice& device, const ForwardCase& c, const ForwardInputs& inputs, const Placement& out)
    : device_(device),
      case_(c),
      inputs_(inputs),
      out_(c.problem.type, out_shape(c.problem), out),
      lse_placement_(place_lse(c)),
      q_memory_(device, bytes_of(inputs.q)),
      k_memory_(device, bytes_of(inputs.k)),
      v_memory_(device, bytes_of(inputs.v)),
      out_memory_(device, bytes_of(out_)),
      lse_memory_(device, static_cast<std::size_t>(lse_placement_.elements) * sizeof(float)),
      sinks_memory_(device, bytes_of(c.sinks)),
      cu_seqlens_q_memory_(device, bytes_of(c.cu_seqlens_q)),
      cu_seqlens_k_memory_(device, bytes_of(c.cu_seqlens_k)),
      seqused_q_memory_(device, bytes_of(c.seqused_q)),
      seqused_k_memory_(device, bytes_of(c.seqused_k)) {
  device.upload(q_memory_.data(), inputs.q.bytes().data(), bytes_of(inputs.q));
  device.upload(k_memory_.data(), inputs.k.bytes().data(), bytes_of(inputs.k));
  device.upload(v_memory_.data(), inputs.v.bytes().data(), bytes_of(inputs.v));
  device.upload(sinks_memory_.data(), c.sinks.data(), bytes_of(c.sinks));
  device.upload(cu_seqlens_q_memory_.data(), c.cu_seqlens_q.data(), bytes_of(c.cu_seqlens_q));
  device.upload(cu_seqlens_k_memory_.data(), c.cu_seqlens_k.data(), bytes_of(c.cu_seqlens_k));
  device.upload(seqused_q_memory_.data(), c.seqused_q.data(), bytes_of(c.seqused_q));
  device.upload(seqused_k_memory_.data(), c.seqused_k.data(), bytes_of(c.seqused_k));
  status_ = prepare(backend);
}

tandem_forward_args PreparedForward::arguments(bool with_addresses) const {
  const auto base = [&](const DeviceBuffer& memory) { return with_addresses ? memory.data() : nullptr; };
  tandem_forward_args args{};
  args.size = sizeof args;
  args.q = to_c(inputs_.q.view(base(q_memory_)));
  args.k = to_c(inputs_.k.view(base(k_memory_)));
  args.v = to_c(inputs_.v.view(base(v_memory_)));
  args.out = to_c(out_.view(base(out_memory_)));
  args.lse = case_.lse == LseOutput::absent ? nullptr : static_cast<float*>(base(lse_memory_));
  args.lse_stride_batch = lse_placement_.stride_batch;
  args.lse_stride_head = lse_placement_.stride_head;
  args.softmax_scale = case_.softmax_scale;
  const ForwardProblem& p = case_.problem;
  args.causal = p.causal ? 1 : 0;
  if (p.window_left != -1 || p.window_right != -1) {
    args.window = 1;
    args.window_left = p.window_left;
    args.window_right = p.window_right;
  }
  args.attention_chunk = p.attention_chunk;
  args.softcap = case_.softcap;
  args.batch_invariant = p.batch_invariant ? 1 : 0;
  args.sm_margin = p.sm_margin;
  args.sinks = address_if<float>(p.sinks, sinks_memory_);
  args.cu_seqlens_q = address_if<std::int32_t>(p.packed_q, cu_seqlens_q_memory_);
  args.cu_seqlens_k = address_if<std::int32_t>(p.packed_k, cu_seqlens_k_memory_);
  args.seqused_q = address_if<std::int32_t>(p.used_q, seqused_q_memory_);
  args.seqused_k = address_if<std::int32_t>(p.used_k, seqused_k_memory_);
  if (p.packed_q || p.packed_k) args.num_sequences = p.batch;
  args.max_seqlen_q = p.longest_q;
  args.max_seqlen_k = p.longest_k;
  return args;
}

Status PreparedForward::prepare(Backend& backend) {
  // Asked before there are addresses, as a caller may, and then with them: alignment is a matter of addresses.
  for (const bool with_addresses : {false, true}) {
    const tandem_forward_args args = arguments(with_addresses);
    api::ForwardRequest request;
    Status status = api::validate(&args, with_addresses ? api::Addresses::required : api::Addresses::optional, request);
    if (status.ok()) status = backend.supports(request.problem, request.call);
    if (!status.ok()) {
      refused_ = true;
      return status;
    }
    // Windows may be told in several ways; whether they were understood, the results say.
    ForwardProblem expected = case_.problem;
    expected.causal = request.problem.causal;
    expected.window_left = request.problem.window_left;
    expected.window_right = request.problem.window_right;
    EXPECT_EQ(request.problem, expected) << describe(case_);
    call_ = request.call;
    problem_ = request.problem;
  }
  if (api::nothing_to_do(problem_)) return {};

  auto prepared = backend.prepare_forward(problem_);
  if (!prepared.ok()) return prepared.status();
  executable_ = std::move(prepared).value();
  if (const std::size_t bytes = executable_->workspace_size(); bytes != 0) {
    workspace_ = std::make_unique<DeviceBuffer>(device_, bytes);
    return executable_->init_workspace({workspace_->data(), bytes}, device_.stream());
  }
  return {};
}

Status PreparedForward::run() {
  if (!status_.ok() || executable_ == nullptr) return status_;
  const Workspace workspace = workspace_ == nullptr ? Workspace{} : Workspace{workspace_->data(), workspace_->bytes()};
  status_ = executable_->run(call_, workspace, device_.stream());
  device_.synchronize();
  return status_;
}

void PreparedForward::clear_outputs() {
  device_.upload(out_memory_.data(), out_.bytes().data(), bytes_of(out_));
  const std::vector<std::byte> poison(lse_memory_.bytes(), kPoison);
  device_.upload(lse_memory_.data(), poison.data(), poison.size());
}

ForwardResult PreparedForward::result() {
  ForwardResult result;
  result.status = status_;
  result.refused = refused_;
  if (executable_ != nullptr) result.plan = executable_->describe();

  HostTensor out = out_;
  device_.download(out.bytes().data(), out_memory_.data(), bytes_of(out));
  EXPECT_EQ(out.damaged_bytes(), 0) << "bytes between the elements of out were written: " << describe(case_);
  EXPECT_TRUE(unchanged(device_, q_memory_, inputs_.q)) << "q was written: " << describe(case_);
  EXPECT_TRUE(unchanged(device_, k_memory_, inputs_.k)) << "k was written: " << describe(case_);
  EXPECT_TRUE(unchanged(device_, v_memory_, inputs_.v)) << "v was written: " << describe(case_);
  EXPECT_TRUE(unchanged(device_, sinks_memory_, case_.sinks)) << "sinks was written: " << describe(case_);
  EXPECT_TRUE(unchanged(device_, cu_seqlens_q_memory_, case_.cu_seqlens_q)) << "cu_seqlens_q was written: " << describe(case_);
  EXPECT_TRUE(unchanged(device_, cu_seqlens_k_memory_, case_.cu_seqlens_k)) << "cu_seqlens_k was written: " << describe(case_);
  EXPECT_TRUE(unchanged(device_, seqused_q_memory_, case_.seqused_q)) << "seqused_q was written: " << describe(case_);
  EXPECT_TRUE(unchanged(device_, seqused_k_memory_, case_.seqused_k)) << "seqused_k was written: " << describe(case_);
  result.out = out.values();
  result.bits = out.bits();

  if (case_.lse == LseOutput::absent) return result;
  const ForwardProblem& p = case_.problem;
  std::vector<float> lse(static_cast<std::size_t>(lse_placement_.elements));
  device_.download(lse.data(), lse_memory_.data(), lse_memory_.bytes());
  const bool padded = case_.lse == LseOutput::padded;
  const std::int64_t stride_head = padded ? lse_placement_.stride_head : p.seqlen_q;
  const std::int64_t stride_batch = padded ? lse_placement_.stride_batch : p.num_heads * p.seqlen_q;
  std::vector<bool> inside(lse.size(), false);
  for (std::int64_t b = 0; b < p.batch_of_q(); ++b) {
    for (std::int64_t h = 0; h < p.num_heads; ++h) {
      for (std::int64_t i = 0; i < p.seqlen_q; ++i) {
        const auto at = static_cast<std::size_t>(b * stride_batch + h * stride_head + i);
        inside[at] = true;
        result.lse.push_back(lse[at]);
      }
    }
  }
  std::int64_t damaged = 0;
  for (std::size_t i = 0; i < lse.size(); ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &lse[i], sizeof bits);
    if (!inside[i] && bits != 0xffffffffu) ++damaged;
  }
  EXPECT_EQ(damaged, 0) << "numbers between those of lse were written: " << describe(case_);
  return result;
}

ForwardResult run_forward(Backend& backend, TestDevice& device, const ForwardCase& c, const ForwardInputs& inputs, const Placement& out) {
  PreparedForward forward(backend, device, c, inputs, out);
  const Status status = forward.run();
  EXPECT_TRUE(status.ok() || forward.refused()) << describe(c) << ": " << status.message();
  return forward.result();
}

ForwardResult run_forward(Backend& backend, TestDevice& device, const ForwardCase& c, const ForwardInputs& inputs) {
  return run_forward(backend, device, c, inputs, place(c.out_layout, out_shape(c.problem)));
}

}  // namespace tandem::testing
