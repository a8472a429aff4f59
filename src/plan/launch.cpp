#include "plan/launch.hpp"

#include <algorithm>
#include <limits>

#include "attention/budget.hpp"

namespace tandem {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

int smaller_than_int(std::int64_t value) { return static_cast<int>(value); }  // validation keeps these below 2^31

// A stride that the driver accepts for every axis: that of an axis of length 1 is never used, so any legal one will do.
std::uint64_t stride_bytes(const Tensor& tensor, std::size_t axis) {
  return tensor.shape[axis] <= 1 ? 16 : static_cast<std::uint64_t>(tensor.stride[axis] * size_of(tensor.type));
}

TensorMapRequest map_of(const Tensor& tensor, DType type, int box_rows) {
  TensorMapRequest map;
  map.base = tensor.data;
  map.type = type;
  for (std::size_t i = 0; i < 4; ++i) {
    constexpr std::size_t axis_of[4] = {3, 1, 2, 0};  // (column, row, head, batch) of (batch, seqlen, heads, dim)
    map.extent[i] = static_cast<std::uint64_t>(tensor.shape[axis_of[i]]);
    if (i > 0) map.stride_bytes[i - 1] = stride_bytes(tensor, axis_of[i]);
  }
  map.box = {64, static_cast<std::uint32_t>(box_rows), 1, 1};
  return map;
}

StridedTensor strided(const Tensor& tensor) { return {tensor.data, tensor.stride[0], tensor.stride[1], tensor.stride[2]}; }

}  // namespace

LaunchGeometry make_geometry(const ForwardSpec& spec, const ForwardProblem& problem, int multiprocessors, std::int64_t l2_bytes) {
  LaunchGeometry geometry;
  geometry.threads = spec.threads();
  geometry.cluster = spec.cluster;
  geometry.shared_bytes = budget::shared_ledger(spec).total();
  geometry.workspace_bytes = spec.scheduler == Scheduler::dynamic_persistent ? 16 : 0;
  const std::int64_t pairs = problem.batch * problem.num_heads;
  if (pairs == 0 || problem.seqlen_q == 0) return geometry;  // no tiles
  const std::int64_t group = problem.num_heads / problem.num_heads_kv;
  const std::int64_t m_blocks = ceil_div(ceil_div(problem.seqlen_q, spec.block_m()), spec.cluster);
  const std::int64_t kv_bytes = std::max<std::int64_t>(problem.seqlen_k * (problem.head_dim + problem.head_dim_v) * 2, 1);
  // Sections of equal size: a short last one would end with its longest tiles.
  const std::int64_t per_section = ceil_div(pairs, ceil_div(pairs, std::clamp<std::int64_t>(l2_bytes / kv_bytes * group, 1, pairs)));
  const std::int64_t sections = ceil_div(pairs, per_section);

  TileOrder& order = geometry.order;
  order.tiles = smaller_than_int(m_blocks * pairs);
  order.m_blocks = smaller_than_int(m_blocks);
  order.pairs_per_section = smaller_than_int(per_section);
  order.last_section = smaller_than_int(sections - 1);
  order.section_tiles = FastDivisor(smaller_than_int(per_section * m_blocks));
  order.section_pairs = FastDivisor(smaller_than_int(per_section));
  order.last_section_pairs = FastDivisor(smaller_than_int(pairs - (sections - 1) * per_section));
  order.heads = FastDivisor(smaller_than_int(problem.num_heads));

  const std::int64_t blocks = static_cast<std::int64_t>(order.tiles) * spec.cluster;
  const std::int64_t resident = static_cast<std::int64_t>(multiprocessors) * spec.ctas_per_sm / spec.cluster * spec.cluster;
  geometry.grid = smaller_than_int(spec.scheduler == Scheduler::single_tile ? blocks : std::clamp<std::int64_t>(resident, spec.cluster, blocks));
  return geometry;
}

TensorMapRequests make_tensor_maps(const ForwardSpec& spec, const ForwardProblem& problem, const ForwardCall& call) {
  TensorMapRequests maps{map_of(call.q, spec.dtype, spec.block_m()), map_of(call.k, spec.dtype, spec.block_n), map_of(call.v, spec.dtype, spec.block_n),
                         map_of(call.out, spec.dtype, 16)};
  if (problem.seqlen_k == 0) {
    // No keys: the kernel masks the one block that it visits. It has to be read from somewhere, and Q is there.
    maps.k = maps.v = maps.q;
    maps.k.extent = maps.v.extent = {8, 1, 1, 1};
    maps.k.box = maps.v.box = {64, static_cast<std::uint32_t>(spec.block_n), 1, 1};
  }
  return maps;
}

ForwardParams make_params(const LaunchGeometry& geometry, const ForwardProblem& problem, const ForwardCall& call, void* counter) {
  constexpr float kLog2E = 1.44269504088896340736f;
  // With a scale of 0 a masked score would be -inf * 0. So small a scale leaves every weight at exactly 1 and keeps -inf what it is. With one
  // that overflows, a score of 0 would be 0 * inf.
  constexpr float kSmallestScale = 1e-30f, kLargestScale = std::numeric_limits<float>::max();
  ForwardParams params{};
  params.q = strided(call.q);
  params.k = strided(call.k);
  params.v = strided(call.v);
  params.out = strided(call.out);
  params.lse = call.lse;
  params.counter = static_cast<unsigned long long*>(counter);
  params.timeline = static_cast<unsigned long long*>(call.timeline);
  params.lse_stride_batch = call.lse_stride_batch;
  params.lse_stride_head = call.lse_stride_head;
  params.seqlen_q = smaller_than_int(problem.seqlen_q);
  params.seqlen_k = smaller_than_int(problem.seqlen_k);
  params.head_dim = smaller_than_int(problem.head_dim);
  params.head_dim_v = smaller_than_int(problem.head_dim_v);
  params.scale_log2 = std::clamp(call.softmax_scale * kLog2E, kSmallestScale, kLargestScale);
  params.kv_group = FastDivisor(smaller_than_int(problem.num_heads / problem.num_heads_kv));
  params.order = geometry.order;
  return params;
}

}  // namespace tandem
