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
  std::int64_t batch = 0;                   // sequences
  std::int64_t seqlen_q = 0, seqlen_k = 0;  // axes of the tensors: of one sequence, or of all where they are packed
  std::int64_t num_heads = 0;
  std::int64_t num_heads_kv = 0;
  std::int64_t head_dim = 0;
  std::int64_t head_dim_v = 0;

  bool packed_q = false, packed_k = false;    // by cu_seqlens
  bool used_q = false, used_k = false;        // seqused is there
  std::int64_t longest_q = 0, longest_k = 0;  // packed sequence that is expected; 0: not known
  bool causal = false;
  std::int64_t window_left = -1, window_right = -1;  // -1: open. With causal the right side is open: causal closes it
  std::int64_t attention_chunk = 0;                  // 0: none
  bool softcap = false;
  bool sinks = false;
  int sm_margin = 0;
  bool batch_invariant = false;

  bool operator==(const ForwardProblem&) const = default;

  // Lengths are read when the run executes.
  bool ragged() const { return packed_q || packed_k || used_q || used_k; }
  // A mask that is more than causal: visible keys have a lower end, or an upper one of their own.
  bool local() const { return window_left >= 0 || window_right >= 0 || attention_chunk > 0; }
  std::int64_t expected_q() const { return longest_q > 0 ? longest_q : seqlen_q; }
  std::int64_t expected_k() const { return longest_k > 0 ? longest_k : seqlen_k; }
  std::int64_t batch_of_q() const { return packed_q ? 1 : batch; }
  std::int64_t batch_of_k() const { return packed_k ? 1 : batch; }
};

// What a run depends on beside it.
struct ForwardCall {
  Tensor q, k, v, out;
  float* lse = nullptr;  // (batch, num_heads, seqlen_q); nullptr: not wanted
  std::int64_t lse_stride_batch = 0;
  std::int64_t lse_stride_head = 0;
  float softmax_scale = 1.0f;
  float softcap = 0.0f;          // 0: none
  const float* sinks = nullptr;  // (num_heads)
  const std::int32_t* cu_seqlens_q = nullptr;
  const std::int32_t* cu_seqlens_k = nullptr;
  const std::int32_t* seqused_q = nullptr;
  const std::int32_t* seqused_k = nullptr;
  void* timeline = nullptr;  // where a kernel whose spec notes a timeline writes it (attention/timeline_event.hpp)
};

struct Workspace {
  void* data = nullptr;
  std::size_t size = 0;
};

}  // namespace tandem
