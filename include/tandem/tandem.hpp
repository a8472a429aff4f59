// Tandem for C++20: the C interface of tandem.h with ownership and outcomes. Header only, throws nothing of its own.
//
//   auto context = tandem::Context::create();                                  // the GPU if there is one, else the CPU
//   tandem::ForwardArgs args;
//   args.q = {q, {batch, seqlen_q, num_heads, head_dim}, tandem::DataType::bf16};
//   args.k = {k, {batch, seqlen_k, num_heads_kv, head_dim}, tandem::DataType::bf16};
//   args.v = {v, {batch, seqlen_k, num_heads_kv, head_dim_v}, tandem::DataType::bf16};
//   args.out = {out, {batch, seqlen_q, num_heads, head_dim_v}, tandem::DataType::bf16};
//   args.causal = true;
//   auto plan = context.value().prepare(args);                                 // may compile, once for these shapes
//   tandem::Status status = plan.value().run(args, workspace, workspace_size, stream);  // launches, and nothing else
//
// Whatever can fail returns a Status or a Result; its message is one sentence that names the argument, its value and what would be accepted.
#pragma once

#include <tandem/tandem.h>
#include <tandem/result.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tandem {

// Named after the version of the interface: programs that hold two of them, or the library's own types, do not mix them up.
inline namespace v0 {

enum class DataType : std::int32_t { fp16 = TANDEM_FP16, bf16 = TANDEM_BF16, fp32 = TANDEM_FP32 };

constexpr std::string_view name_of(DataType type) {
  switch (type) {
    case DataType::fp16: return "fp16";
    case DataType::bf16: return "bf16";
    case DataType::fp32: return "fp32";
  }
  return "?";
}

// Bytes of an element.
constexpr std::size_t size_of(DataType type) { return type == DataType::fp32 ? 4 : 2; }

using Shape = std::array<std::int64_t, 4>;   // batch, seqlen, heads, dim
using Stride = std::array<std::int64_t, 4>;  // elements from one entry to the next along each axis

// Strides of a tensor without gaps whose axes lie in memory in the order of its shape.
constexpr Stride contiguous_stride(const Shape& shape) { return {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1}; }

// Strides of a tensor without gaps that lies in memory as (batch, heads, seqlen, dim). `shape` is (batch, seqlen, heads, dim) as everywhere.
constexpr Stride heads_first_stride(const Shape& shape) { return {shape[1] * shape[2] * shape[3], shape[3], shape[1] * shape[3], 1}; }

// A view of memory that the backend can reach, as Q, K and V are passed: device memory for "hopper", host memory for the others. Owns nothing.
class ConstTensor {
 public:
  ConstTensor() = default;
  ConstTensor(const void* data, const Shape& shape, DataType type) : ConstTensor(data, shape, contiguous_stride(shape), type) {}
  // A stride of 0 repeats an entry; that of an axis of length 1 is never used.
  ConstTensor(const void* data, const Shape& shape, const Stride& stride, DataType type) : data_(data), shape_(shape), stride_(stride), type_(type) {}

  const void* data() const { return data_; }
  const Shape& shape() const { return shape_; }
  const Stride& stride() const { return stride_; }
  DataType type() const { return type_; }

  tandem_tensor c_tensor() const {
    return {.data = const_cast<void*>(data_),  // the C struct serves both ways; the library only reads q, k and v
            .shape = {shape_[0], shape_[1], shape_[2], shape_[3]},
            .stride = {stride_[0], stride_[1], stride_[2], stride_[3]},
            .dtype = static_cast<std::int32_t>(type_),
            .reserved = 0};
  }

 private:
  const void* data_ = nullptr;
  Shape shape_{};
  Stride stride_{};
  DataType type_ = DataType::bf16;
};

// The same of memory that may be written, as O is passed. Every element needs memory of its own.
class Tensor : public ConstTensor {
 public:
  Tensor() = default;
  Tensor(void* data, const Shape& shape, DataType type) : ConstTensor(data, shape, type) {}
  Tensor(void* data, const Shape& shape, const Stride& stride, DataType type) : ConstTensor(data, shape, stride, type) {}
};

// One forward call: O = softmax(softmax_scale * Q K^T + mask) V. Query head i reads KV head i / (num_heads / num_heads_kv).
struct ForwardArgs {
  ConstTensor q;                            // (batch, seqlen_q, num_heads, head_dim)
  ConstTensor k;                            // (batch, seqlen_k, num_heads_kv, head_dim)
  ConstTensor v;                            // (batch, seqlen_k, num_heads_kv, head_dim_v)
  Tensor out;                               // (batch, seqlen_q, num_heads, head_dim_v), dtype of q
  float* lse = nullptr;                     // (batch, num_heads, seqlen_q), natural logarithm; null: not wanted
  std::int64_t lse_stride_batch = 0;        // elements; both 0: contiguous
  std::int64_t lse_stride_head = 0;         //
  std::optional<float> softmax_scale = {};  // finite, not negative; absent: 1 / sqrt(head_dim)
  bool causal = false;                      // query i sees keys up to its position p = i + seqlen_k - seqlen_q

  // Masks and ragged batches as tandem.h says; what is absent does nothing.
  struct Window {
    std::int64_t left = -1, right = -1;  // keys p - left ... p + right are seen; negative: open
  };
  std::optional<Window> window = {};
  std::int64_t attention_chunk = 0;            // c > 0: keys of the same chunk of c positions are seen
  float softcap = 0.0f;                        // c > 0: a score s becomes c tanh(s / c)
  const float* sinks = nullptr;                // (num_heads)
  const std::int32_t* cu_seqlens_q = nullptr;  // (num_sequences + 1); q and out are then (1, rows, heads, dim)
  const std::int32_t* cu_seqlens_k = nullptr;
  const std::int32_t* seqused_q = nullptr;  // (num_sequences)
  const std::int32_t* seqused_k = nullptr;
  std::int64_t num_sequences = 0;                   // with cu_seqlens
  std::int64_t max_seqlen_q = 0, max_seqlen_k = 0;  // of packed sequences, to choose the schedule by; 0: not known
  int sm_margin = 0;                                // multiprocessors that are left to others
  bool batch_invariant = false;                     // the bits of a row depend on its own sequence alone

  // Made in place: copies of copies would cost a run as much as all its checks.
  tandem_forward_args c_args() const {
    return {.size = sizeof(tandem_forward_args),
            .reserved = 0,
            .q = q.c_tensor(),
            .k = k.c_tensor(),
            .v = v.c_tensor(),
            .out = out.c_tensor(),
            .lse = lse,
            .lse_stride_batch = lse_stride_batch,
            .lse_stride_head = lse_stride_head,
            .softmax_scale = softmax_scale.value_or(q.shape()[3] > 0 ? 1.0f / std::sqrt(static_cast<float>(q.shape()[3])) : 1.0f),
            .causal = causal ? 1 : 0,
            .window = window ? 1 : 0,
            .batch_invariant = batch_invariant ? 1 : 0,
            .window_left = window ? window->left : 0,
            .window_right = window ? window->right : 0,
            .attention_chunk = attention_chunk,
            .softcap = softcap,
            .sm_margin = sm_margin,
            .sinks = sinks,
            .cu_seqlens_q = cu_seqlens_q,
            .cu_seqlens_k = cu_seqlens_k,
            .seqused_q = seqused_q,
            .seqused_k = seqused_k,
            .num_sequences = num_sequences,
            .max_seqlen_q = max_seqlen_q,
            .max_seqlen_k = max_seqlen_k};
  }
};

namespace detail {

// What the last call of this thread returned, with its sentence.
inline Status status_of(tandem_status status) {
  if (status == TANDEM_OK) return {};
  return {static_cast<StatusCode>(status), tandem_last_error()};
}

struct Destroy {
  void operator()(tandem_context* context) const { tandem_context_destroy(context); }
  void operator()(tandem_forward_plan* plan) const { tandem_forward_plan_destroy(plan); }
};

}  // namespace detail

// A prepared forward. Immutable: several threads may run it at once, each with a workspace of its own.
class ForwardPlan {
 public:
  // Bytes of workspace that a run needs, in the memory of the tensors, at a multiple of 16 bytes. May be 0.
  std::size_t workspace_size() const { return tandem_forward_workspace_size(plan_.get()); }

  // Readies fresh workspace memory, once; every run leaves it ready for the next. Without it results are right and scheduling is slower.
  Status init_workspace(void* workspace, std::size_t workspace_size, void* stream = nullptr) const {
    return detail::status_of(tandem_forward_workspace_init(plan_.get(), workspace, workspace_size, stream));
  }

  // Runs on `stream` (CUstream or cudaStream_t; null is the default stream; host backends ignore it and return when done). Compiles, allocates
  // and synchronises nothing. Shapes, dtypes and masks must be those of the plan; addresses, strides and softmax_scale may differ.
  Status run(const ForwardArgs& args, void* workspace = nullptr, std::size_t workspace_size = 0, void* stream = nullptr) const {
    const tandem_forward_args c_args = args.c_args();
    return detail::status_of(tandem_forward_run(plan_.get(), &c_args, workspace, workspace_size, stream));
  }

  // What was chosen and why, as JSON. Lives as long as the plan.
  std::string_view json() const { return tandem_forward_plan_json(plan_.get()); }

  const tandem_forward_plan* get() const { return plan_.get(); }

 private:
  friend class Context;
  explicit ForwardPlan(tandem_forward_plan* plan) : plan_(plan) {}

  std::unique_ptr<tandem_forward_plan, detail::Destroy> plan_;
};

struct ContextOptions {
  std::string backend = "auto";  // "hopper", "cpu", "model"; "auto": hopper where it is available, else cpu
  int device = 0;                // CUDA device ordinal, for "hopper"
  std::string cache_dir = {};    // kernel cache; empty: TANDEM_CACHE_DIR, else XDG_CACHE_HOME/tandem, else ~/.cache/tandem
  int threads = 0;               // of the cpu backend; 0: one for each core
};

// A backend on a device, with the kernels that it has loaded. Several threads may use it at once.
class Context {
 public:
  // Fails with `unavailable` and the reason where this machine lacks what the backend needs.
  static Result<Context> create(const ContextOptions& options = {}) {
    tandem_context_options c_options{};
    c_options.size = sizeof c_options;
    c_options.device = options.device;
    c_options.backend = options.backend.c_str();
    c_options.cache_dir = options.cache_dir.empty() ? nullptr : options.cache_dir.c_str();
    c_options.threads = options.threads;
    tandem_context* context = nullptr;
    if (const tandem_status status = tandem_context_create(&c_options, &context); status != TANDEM_OK) return detail::status_of(status);
    return Context(context);
  }

  // "hopper", "cpu" or "model".
  std::string_view backend() const { return tandem_context_backend(context_.get()); }

  // Whether this backend serves the call, and if not why. Reads shapes, strides, dtypes and flags; addresses may be null.
  Status supports(const ForwardArgs& args) const {
    const tandem_forward_args c_args = args.c_args();
    return detail::status_of(tandem_forward_supports(context_.get(), &c_args));
  }

  // Chooses a schedule and a kernel for the shapes of the call. May compile, load and read files; addresses may be null.
  Result<ForwardPlan> prepare(const ForwardArgs& args) const {
    const tandem_forward_args c_args = args.c_args();
    tandem_forward_plan* plan = nullptr;
    if (const tandem_status status = tandem_forward_prepare(context_.get(), &c_args, &plan); status != TANDEM_OK) return detail::status_of(status);
    return ForwardPlan(plan);
  }

  tandem_context* get() const { return context_.get(); }

 private:
  explicit Context(tandem_context* context) : context_(context) {}

  std::unique_ptr<tandem_context, detail::Destroy> context_;
};

}  // namespace v0
}  // namespace tandem
