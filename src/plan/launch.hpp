// From a spec and a call to everything a launch needs, without a GPU: the same numbers drive the H200 and the Hopper model.
#pragma once

#include <array>
#include <cstdint>

#include "attention/params.hpp"
#include "attention/spec.hpp"
#include "common/tensor.hpp"

namespace tandem {

// What cuTensorMapEncodeTiled takes: rank 4, coordinates (column, row, head, batch), 128-byte swizzle, zeros outside the tensor.
struct TensorMapRequest {
  const void* base = nullptr;
  DType type = DType::bf16;
  std::array<std::uint64_t, 4> extent{};        // elements
  std::array<std::uint64_t, 3> stride_bytes{};  // of row, head and batch; multiples of 16
  std::array<std::uint32_t, 4> box{};           // elements

  bool operator==(const TensorMapRequest&) const = default;
  // Whether the two differ at most in their address.
  bool same_layout(const TensorMapRequest& other) const {
    return type == other.type && extent == other.extent && stride_bytes == other.stride_bytes && box == other.box;
  }
};

// The part of a launch that depends on the problem alone.
struct LaunchGeometry {
  TileOrder order;
  int grid = 0;
  int threads = 0;
  int cluster = 1;
  int shared_bytes = 0;
  std::size_t workspace_bytes = 0;  // the dynamic scheduler's counter
};

struct TensorMapRequests {
  TensorMapRequest q, k, v, out;
};

// `multiprocessors` of the device; `l2_bytes` that K and V of a section of heads may fill.
LaunchGeometry make_geometry(const ForwardSpec& spec, const ForwardProblem& problem, int multiprocessors, std::int64_t l2_bytes);

TensorMapRequests make_tensor_maps(const ForwardSpec& spec, const ForwardProblem& problem, const ForwardCall& call);

// All of ForwardParams but its four tensor maps.
ForwardParams make_params(const LaunchGeometry& geometry, const ForwardProblem& problem, const ForwardCall& call, void* counter);

}  // namespace tandem
