// Tensors and one forward call, as every layer below the C ABI sees them: already validated.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tandem {

// Numbered as in tandem.h.
enum class ElementType : int { fp16 = 1, bf16 = 2, fp32 = 3 };

constexpr std::string_view name_of(ElementType type) {
  switch (type) {
    case ElementType::fp16: return "fp16";
    case ElementType::bf16: return "bf16";
    case ElementType::fp32: return "fp32";
  }
  return "?";
}

constexpr std::int64_t size_of(ElementType type) { return type == ElementType::fp32 ? 4 : 2; }

// (batch, seqlen, heads, dim); strides in elements.
struct Tensor {
  void* data = nullptr;
  std::array<std::int64_t, 4> shape{};
  std::array<std::int64_t, 4> stride{};
  ElementType type = ElementType::bf16;
};

// What a plan depends on.
struct ForwardProblem {
  ElementType type = ElementType::bf16;
  std::int64_t batch = 0;
  std::int64_t seqlen_q = 0;
  std::int64_t seqlen_k = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_heads_kv = 0;
  std::int64_t head_dim = 0;
  std::int64_t head_dim_v = 0;
  bool causal = false;

  bool operator==(const ForwardProblem&) const = default;
};

// What a run depends on beside it.
struct ForwardCall {
  Tensor q, k, v, out;
  float* lse = nullptr;  // (batch, num_heads, seqlen_q); nullptr: not wanted
  std::int64_t lse_stride_batch = 0;
  std::int64_t lse_stride_head = 0;
  float softmax_scale = 1.0f;
  void* timeline = nullptr;  // where a kernel whose spec notes a timeline writes it (attention/timeline_event.hpp)
};

struct Workspace {
  void* data = nullptr;
  std::size_t size = 0;
};

}  // namespace tandem
