// From a spec and a call to everything a launch needs, without a GPU: the same numbers drive the H200 and the Hopper model.
#pragma once

#include <array>
#include <cstdint>

#include "attention/params.hpp"
#include "attention/spec.hpp"
#include "common/tensor.hpp"

namespace tandem {

// What cuTensorMapEncodeTiled takes: coordinates (column, row, head, batch), of ragged tensors (column, row, head, end, batch) as
// attention/sequence.cuh says; zeros stand for what is outside the tensor.
struct TensorMapRequest {
  const void* base = nullptr;
  DType type = DType::bf16;
  std::uint32_t rank = 4;
  std::array<std::uint64_t, 5> extent{};        // elements
  std::array<std::uint64_t, 4> stride_bytes{};  // of all axes but the first; multiples of 16
  std::array<std::uint32_t, 5> box{};           // elements
  int swizzle_bytes = 128;                      // 32, 64 or 128: of a row in shared memory, whose first bytes the box's row takes
  int l2_bytes = 128;                           // that a load brings into the L2 cache at least: 128 or 256

  bool needed() const { return box[0] != 0; }

  bool operator==(const TensorMapRequest&) const = default;
  // Whether the two differ at most in their address.
  bool same_layout(const TensorMapRequest& other) const {
    return type == other.type && rank == other.rank && extent == other.extent && stride_bytes == other.stride_bytes && box == other.box &&
           swizzle_bytes == other.swizzle_bytes && l2_bytes == other.l2_bytes;
  }
};

// Columns that loads bring of each row (ForwardParams).
struct LoadedColumns {
  int q = 0, k = 0, v = 0;
};

// The part of a launch that depends on the problem alone.
struct LaunchGeometry {
  TileOrder order;
  LoadedColumns loaded;
  int grid = 0;
  int threads = 0;
  int cluster = 1;
  int shared_bytes = 0;
  std::size_t workspace_bytes = 0;  // the dynamic scheduler's counter; ragged: a TileList
  int list_capacity = 0;            // ragged: entries that the list has room for
};

// What ChunkMaps are made from.
struct ChunkMapRequests {
  TensorMapRequest whole;
  TensorMapRequest last;  // not needed where the tensor fills whole chunks
};

struct TensorMapRequests {
  ChunkMapRequests q, k, v, out;
};

LoadedColumns loaded_columns(const ForwardSpec& spec, const ForwardProblem& problem);

// `multiprocessors` of the device; `l2_bytes` that K and V of a section of heads may fill.
LaunchGeometry make_geometry(const ForwardSpec& spec, const ForwardProblem& problem, int multiprocessors, std::int64_t l2_bytes);

TensorMapRequests make_tensor_maps(const ForwardSpec& spec, const ForwardProblem& problem, const ForwardCall& call);

// All of ForwardParams but its tensor maps. `workspace`: geometry.workspace_bytes.
ForwardParams make_params(const LaunchGeometry& geometry, const ForwardProblem& problem, const ForwardCall& call, void* workspace);

// Of the kernel that runs before a ragged forward.
PrepareParams make_prepare_params(const ForwardSpec& spec, const LaunchGeometry& geometry, const ForwardProblem& problem, const ForwardCall& call,
                                  void* workspace);

// V and O wider than a kernel's tile are worked on in parts of columns, one launch after the other; only the first writes LSE.
constexpr std::int64_t kWidestV = 256;
constexpr int v_parts(const ForwardProblem& problem) { return static_cast<int>((problem.head_dim_v + kWidestV - 1) / kWidestV); }
ForwardProblem problem_of_part(const ForwardProblem& problem, int part);
ForwardCall call_of_part(const ForwardProblem& problem, const ForwardCall& call, int part);

}  // namespace tandem
