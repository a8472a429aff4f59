#include "attention.hpp"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "failure.hpp"

namespace tandem::cli {
namespace {

std::byte* first_element(const Buffer& buffer, const HostTensor& tensor) {
  return static_cast<std::byte*>(buffer.data()) + tensor.offset * static_cast<std::int64_t>(size_of(tensor.type));
}

}  // namespace

ForwardArgs arguments_of(const AttentionInputs& inputs, const HostTensor& out) {
  ForwardArgs args;
  args.q = {nullptr, inputs.q.shape, inputs.q.stride, inputs.q.type};
  args.k = {nullptr, inputs.k.shape, inputs.k.stride, inputs.k.type};
  args.v = {nullptr, inputs.v.shape, inputs.v.stride, inputs.v.type};
  args.out = {nullptr, out.shape, out.stride, out.type};
  args.softmax_scale = inputs.scale;
  args.causal = inputs.causal;
  return args;
}

Attention::Attention(const Context& context, MemorySpace& memory, const AttentionInputs& inputs, const HostTensor& out, bool lse)
    : memory_(memory), plan_(require(context.prepare(arguments_of(inputs, out)))), args_(arguments_of(inputs, out)) {
  q_ = upload(inputs.q, args_.q);
  k_ = upload(inputs.k, args_.k);
  v_ = upload(inputs.v, args_.v);
  out_ = {.type = out.type, .shape = out.shape, .stride = out.stride, .offset = out.offset, .storage = {}};
  out_bytes_ = out.storage.size();
  out_buffer_ = memory.allocate(out_bytes_);
  memory.write(*out_buffer_, out.storage);
  args_.out = {first_element(*out_buffer_, out), out.shape, out.stride, out.type};
  if (lse) {
    lse_count_ = static_cast<std::size_t>(out.shape[0] * out.shape[1] * out.shape[2]);
    lse_ = memory.allocate(lse_count_ * sizeof(float));
    const std::vector<std::byte> poison(lse_count_ * sizeof(float), std::byte{0xff});  // NaN: a place that is not written is seen
    memory.write(*lse_, poison);
    args_.lse = static_cast<float*>(lse_->data());
  }
  if (plan_.workspace_size() > 0) {
    workspace_ = memory.allocate(plan_.workspace_size());
    require(plan_.init_workspace(workspace_->data(), workspace_->size(), memory.stream()));
  }
}

std::unique_ptr<Buffer> Attention::upload(const HostTensor& tensor, ConstTensor& view) {
  auto buffer = memory_.allocate(tensor.storage.size());
  memory_.write(*buffer, tensor.storage);
  view = {first_element(*buffer, tensor), tensor.shape, tensor.stride, tensor.type};
  return buffer;
}

void Attention::run() { require(plan_.run(args_, workspace_ ? workspace_->data() : nullptr, workspace_ ? workspace_->size() : 0, memory_.stream())); }

HostTensor Attention::out() const {
  HostTensor result = out_;
  result.storage.resize(out_bytes_);
  memory_.read(result.storage, *out_buffer_);
  return result;
}

std::vector<float> Attention::lse() const {
  std::vector<float> values(lse_count_);
  if (lse_) memory_.read(std::as_writable_bytes(std::span(values)), *lse_);
  return values;
}

double flops_of(const AttentionInputs& inputs) {
  const std::int64_t seqlen_q = inputs.q.shape[1], seqlen_k = inputs.k.shape[1];
  double pairs = static_cast<double>(seqlen_q) * static_cast<double>(seqlen_k);
  if (inputs.causal && seqlen_q == seqlen_k) {
    pairs /= 2;
  } else if (inputs.causal) {
    pairs = 0;
    for (std::int64_t row = 0; row < seqlen_q; ++row) pairs += static_cast<double>(visible_keys(inputs, row));
  }
  return 2 * pairs * static_cast<double>(inputs.q.shape[0] * inputs.q.shape[2] * (inputs.q.shape[3] + inputs.v.shape[3]));
}

std::string schedule_text(std::string_view plan_json) {
  const auto plan = nlohmann::json::parse(plan_json, nullptr, /*allow_exceptions=*/false);
  if (!plan.is_object()) return std::string(plan_json);
  std::string text, reason;
  for (const auto& [name, value] : plan.items()) {
    if (name == "reason" && value.is_string()) reason = value.get<std::string>();
    if (value.is_structured() || name == "reason" || name == "backend") continue;
    if (name == "kernel" && value.is_string())
      text = value.get<std::string>() + (text.empty() ? "" : ", " + text);
    else
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text.empty() ? reason : reason.empty() ? text : fmt::format("{}; {}", text, reason);
}

}  // namespace tandem::cli
