#include "backends/hopper/layout.hpp"

#include <fmt/format.h>

namespace tandem {

std::string layout_refusal(const char* name, const Tensor& tensor) {
  constexpr std::int64_t kAlignment = 16;
  constexpr std::int64_t kStrideLimit = 1ll << 40;
  constexpr const char* kAxes[] = {"batch", "seqlen", "heads"};
  if (reinterpret_cast<std::uintptr_t>(tensor.data) % kAlignment != 0)
    return fmt::format("{} starts at address {}, {} bytes past a multiple of 16; the Hopper kernels need 16-byte alignment: copy it", name, tensor.data,
                       reinterpret_cast<std::uintptr_t>(tensor.data) % kAlignment);
  if (tensor.shape[3] > 1 && tensor.stride[3] != 1)
    return fmt::format("{} has stride {} along its last axis; the Hopper kernels need 1: make it contiguous there", name, tensor.stride[3]);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (tensor.shape[axis] <= 1) continue;
    const std::int64_t bytes = tensor.stride[axis] * size_of(tensor.type);
    if (bytes % kAlignment != 0)
      return fmt::format("{} has stride {} along {}, {} bytes; the Hopper kernels need multiples of 16 bytes: copy it or pad its rows", name,
                         tensor.stride[axis], kAxes[axis], bytes);
    if (bytes < 0 || bytes >= kStrideLimit)
      return fmt::format("{} has stride {} along {}; the Hopper kernels need 0 to 2^40 - 16 bytes", name, tensor.stride[axis], kAxes[axis]);
  }
  return {};
}

std::string layout_refusal(const ForwardCall& call) {
  const struct {
    const char* name;
    const Tensor& tensor;
  } tensors[] = {{"q", call.q}, {"k", call.k}, {"v", call.v}, {"out", call.out}};
  for (const auto& [name, tensor] : tensors)
    if (std::string refusal = layout_refusal(name, tensor); !refusal.empty()) return refusal;
  return {};
}

}  // namespace tandem
