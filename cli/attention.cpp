#include "attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

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
  args.causal = inputs.mask.causal;
  if (inputs.mask.windowed()) args.window = ForwardArgs::Window{inputs.mask.window_left, inputs.mask.window_right};
  args.attention_chunk = inputs.mask.attention_chunk;
  args.softcap = inputs.softcap;
  if (!inputs.sinks.empty()) args.sinks = inputs.sinks.data();
  const auto present = [](const std::optional<Lengths>& lengths) { return lengths ? lengths->data() : nullptr; };
  args.cu_seqlens_q = present(inputs.cu_seqlens_q);
  args.cu_seqlens_k = present(inputs.cu_seqlens_k);
  args.seqused_q = present(inputs.seqused_q);
  args.seqused_k = present(inputs.seqused_k);
  if (inputs.cu_seqlens_q || inputs.cu_seqlens_k) args.num_sequences = inputs.sequences();
  for (std::int64_t i = 0; i < args.num_sequences; ++i) {
    if (inputs.cu_seqlens_q) args.max_seqlen_q = std::max(args.max_seqlen_q, inputs.queries(i).count);
    if (inputs.cu_seqlens_k) args.max_seqlen_k = std::max(args.max_seqlen_k, inputs.keys(i).count);
  }
  args.sm_margin = inputs.sm_margin;
  args.batch_invariant = inputs.batch_invariant;
  return args;
}

Attention::Attention(const Context& context, MemorySpace& memory, const AttentionInputs& inputs, const HostTensor& out, bool lse)
    : memory_(memory), plan_(require(context.prepare(arguments_of(inputs, out)))), args_(arguments_of(inputs, out)) {
  q_ = upload(inputs.q, args_.q);
  k_ = upload(inputs.k, args_.k);
  v_ = upload(inputs.v, args_.v);
  if (!inputs.sinks.empty()) args_.sinks = static_cast<const float*>(upload(std::as_bytes(std::span(inputs.sinks))));
  const auto upload_lengths = [&](const std::optional<Lengths>& lengths, const std::int32_t*& place) {
    if (lengths) place = static_cast<const std::int32_t*>(upload(std::as_bytes(std::span(*lengths))));
  };
  upload_lengths(inputs.cu_seqlens_q, args_.cu_seqlens_q);
  upload_lengths(inputs.cu_seqlens_k, args_.cu_seqlens_k);
  upload_lengths(inputs.seqused_q, args_.seqused_q);
  upload_lengths(inputs.seqused_k, args_.seqused_k);
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

const void* Attention::upload(std::span<const std::byte> bytes) {
  arrays_.push_back(memory_.allocate(bytes.size()));
  memory_.write(*arrays_.back(), bytes);
  return arrays_.back()->data();
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
  const Mask& mask = inputs.mask;
  const bool causal_only = mask.causal && !mask.windowed() && mask.attention_chunk == 0;
  const auto pairs_of = [&](std::int64_t seqlen_q, std::int64_t seqlen_k) {
    const double square = static_cast<double>(seqlen_q) * static_cast<double>(seqlen_k);
    if (!mask.any()) return square;
    if (causal_only && seqlen_q == seqlen_k) return square / 2;
    double pairs = 0;
    for (std::int64_t row = 0; row < seqlen_q; ++row) pairs += static_cast<double>(mask.visible(row, seqlen_q, seqlen_k).count());
    return pairs;
  };
  double pairs = 0;
  if (!inputs.ragged())
    pairs = static_cast<double>(inputs.q.shape[0]) * pairs_of(inputs.q.shape[1], inputs.k.shape[1]);
  else
    for (std::int64_t i = 0; i < inputs.sequences(); ++i) pairs += pairs_of(inputs.queries(i).count, inputs.keys(i).count);
  return 2 * pairs * static_cast<double>(inputs.q.shape[2] * (inputs.q.shape[3] + inputs.v.shape[3]));
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
