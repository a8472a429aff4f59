#include "plan/launch.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/budget.hpp"
#include "tile/layout.hpp"

namespace tandem {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

int smaller_than_int(std::int64_t value) { return static_cast<int>(value); }  // validation keeps these below 2^31

// A stride that the driver accepts for every axis: that of an axis of length 1 is never used, so any legal one will do.
std::uint64_t stride_bytes(const Tensor& tensor, std::size_t axis) {
  return tensor.shape[axis] <= 1 ? 16 : static_cast<std::uint64_t>(tensor.stride[axis] * size_of(tensor.type));
}

// Measured on contiguous rows of many heads: 256 bytes win up to 2 % at head dims 80 and 96, 128 bytes as much at 112 and 256, and up to 15 % where
// rows begin inside a sector of 32 bytes (72, 88, 120).
int l2_bytes(const TensorMapRequest& map) {
  constexpr std::uint64_t kSector = 32, kLongRow = 224;
  bool whole_sectors = reinterpret_cast<std::uintptr_t>(map.base) % kSector == 0;
  for (std::uint32_t axis = 1; axis < map.rank; ++axis) whole_sectors = whole_sectors && map.stride_bytes[axis - 1] % kSector == 0;
  return whole_sectors && map.extent[0] * 2 < kLongRow ? 256 : 128;
}

TensorMapRequest dense_map(const Tensor& tensor, DType type, int box_rows) {
  TensorMapRequest map;
  map.base = tensor.data;
  map.type = type;
  for (std::size_t i = 0; i < 4; ++i) {
    constexpr std::size_t axis_of[4] = {3, 1, 2, 0};  // (column, row, head, batch) of (batch, seqlen, heads, dim)
    map.extent[i] = static_cast<std::uint64_t>(tensor.shape[axis_of[i]]);
    if (i > 0) map.stride_bytes[i - 1] = stride_bytes(tensor, axis_of[i]);
  }
  map.box = {tile::kChunkColumns, static_cast<std::uint32_t>(box_rows), 1, 1, 1};
  map.l2_bytes = l2_bytes(map);
  return map;
}

// attention/sequence.cuh: row coordinates end at the extent wherever a sequence ends, and `end` moves them there.
TensorMapRequest ragged_map(const Tensor& tensor, DType type, int box_rows) {
  const TensorMapRequest dense = dense_map(tensor, type, box_rows);
  const std::uint64_t rows = dense.extent[1], row_bytes = dense.stride_bytes[0];
  TensorMapRequest map;
  map.base = static_cast<const char*>(dense.base) - rows * row_bytes;
  map.type = type;
  map.rank = 5;
  map.extent = {dense.extent[0], rows, dense.extent[2], rows + 1, dense.extent[3]};
  map.stride_bytes = {row_bytes, dense.stride_bytes[1], row_bytes, dense.stride_bytes[2]};
  map.box = dense.box;
  map.l2_bytes = dense.l2_bytes;
  return map;
}

// The map of the last chunk, if `columns` do not fill it: the same tensor, a narrower box.
void add_last(ChunkMapRequests& maps, int columns, int swizzle_bytes) {
  const int left = columns % tile::kChunkColumns;
  if (left == 0) return;
  maps.last = maps.whole;
  maps.last.box[0] = static_cast<std::uint32_t>(left);
  maps.last.swizzle_bytes = swizzle_bytes;
}

// Up to which |S| the cubic in place of tanh(S cap_scale) holds (softmax.cuh): where its coefficients and S^2 are ordinary FP32 numbers.
float gentle_score(float scale_log2, float cap_scale) {
  const bool ordinary = cap_scale >= 0x1p-20f && cap_scale <= 0x1p20f && scale_log2 >= 0x1p-40f && scale_log2 <= 0x1p60f;
  return ordinary ? kGentle / cap_scale : -1.0f;
}

// Query blocks of each head, of `m_blocks`, that are kept for after the last section. Causal tiles grow from nothing to the longest, which the last section
// begins with: two tiles of average length for each of `places` take as long; what it lacks of them, and a little more, is held back. The h first blocks of a
// head are (h / m_blocks)^2 of its work. They load the keys of every pair once more, so they have to be long enough to hide that.
std::int64_t held_back(const ForwardSpec& spec, const ForwardProblem& problem, std::int64_t m_blocks, std::int64_t pairs, std::int64_t last_section_pairs,
                       std::int64_t places) {
  constexpr std::int64_t kEnoughKeys = 1024;
  if (!problem.causal || problem.local() || last_section_pairs == pairs) return 0;
  if (2 * problem.seqlen_q < problem.seqlen_k) return 0;  // the first queries see half of the keys and more: no tile is short
  const double lacking = std::max(0.0, 2.25 * static_cast<double>(places) - static_cast<double>(last_section_pairs * m_blocks));
  const double share = std::sqrt(lacking / static_cast<double>(pairs * m_blocks));
  const std::int64_t held = std::min(m_blocks / 2, static_cast<std::int64_t>(std::ceil(share * static_cast<double>(m_blocks))));
  return held * spec.block_m() < kEnoughKeys ? 0 : held;
}

StridedTensor strided(const Tensor& tensor) { return {tensor.data, tensor.stride[0], tensor.stride[1], tensor.stride[2]}; }

}  // namespace

// Those of the tensor. Those of the tile, with zeros, of Q where O passes through its buffer and leaves something there, and of tensors that lack more than a
// piece of the last chunk, which only the model plays on such tiles.
LoadedColumns loaded_columns(const ForwardSpec& spec, const ForwardProblem& problem) {
  const auto of = [](std::int64_t columns, int tile) {
    const int existing = smaller_than_int(columns);
    return existing + tile::kPieceColumns >= tile && tile::chunks_of(existing) == tile::chunks_of(tile) ? existing : tile;
  };
  const int qk = of(problem.head_dim, spec.head_dim);
  return {spec.output_stage == OutputStage::q_buffer ? spec.head_dim : qk, qk, of(problem.head_dim_v, spec.head_dim_v)};
}

LaunchGeometry make_geometry(const ForwardSpec& spec, const ForwardProblem& problem, int multiprocessors, std::int64_t l2_bytes) {
  LaunchGeometry geometry;
  geometry.loaded = loaded_columns(spec, problem);
  geometry.threads = spec.threads();
  geometry.cluster = spec.cluster;
  geometry.shared_bytes = budget::shared_ledger(spec).total();
  geometry.workspace_bytes = spec.scheduler == Scheduler::dynamic_persistent ? 16 : 0;
  const std::int64_t pairs = problem.batch * problem.num_heads;
  const std::int64_t usable = std::max(multiprocessors - problem.sm_margin, 1);
  if (spec.ragged) {
    const std::int64_t capacity = tile_list_capacity(problem.batch_of_q(), problem.seqlen_q, problem.batch, spec.block_m());
    geometry.list_capacity = smaller_than_int(capacity);
    geometry.workspace_bytes = static_cast<std::size_t>(tile_list_bytes(capacity));
    geometry.order.tiles = smaller_than_int(capacity * problem.num_heads);  // at most
    geometry.order.heads = FastDivisor(smaller_than_int(problem.num_heads));
    geometry.grid = smaller_than_int(std::clamp<std::int64_t>(usable * spec.ctas_per_sm, 1, capacity * problem.num_heads));
    return geometry;
  }
  if (pairs == 0 || problem.seqlen_q == 0) return geometry;  // no tiles
  const std::int64_t group = problem.num_heads / problem.num_heads_kv;
  const std::int64_t m_blocks = ceil_div(ceil_div(problem.seqlen_q, spec.block_m()), spec.cluster);
  const std::int64_t kv_bytes = std::max<std::int64_t>(problem.seqlen_k * (problem.head_dim + problem.head_dim_v) * 2, 1);
  // Sections of equal size: a short last one would end with its longest tiles.
  const std::int64_t per_section = ceil_div(pairs, ceil_div(pairs, std::clamp<std::int64_t>(l2_bytes / kv_bytes * group, 1, pairs)));
  const std::int64_t sections = ceil_div(pairs, per_section), last_section = pairs - (sections - 1) * per_section;
  const std::int64_t resident = usable * spec.ctas_per_sm / spec.cluster * spec.cluster;
  const std::int64_t held = held_back(spec, problem, m_blocks, pairs, last_section, resident);

  TileOrder& order = geometry.order;
  order.tiles = smaller_than_int(m_blocks * pairs);
  order.m_blocks = smaller_than_int(m_blocks);
  order.held_back = smaller_than_int(held);
  order.in_sections = smaller_than_int((m_blocks - held) * pairs);
  order.pairs_per_section = smaller_than_int(per_section);
  order.last_section = smaller_than_int(sections - 1);
  order.section_tiles = FastDivisor(smaller_than_int(per_section * (m_blocks - held)));
  order.section_pairs = FastDivisor(smaller_than_int(per_section));
  order.last_section_pairs = FastDivisor(smaller_than_int(last_section));
  order.pairs = FastDivisor(smaller_than_int(pairs));
  order.heads = FastDivisor(smaller_than_int(problem.num_heads));

  const std::int64_t blocks = static_cast<std::int64_t>(order.tiles) * spec.cluster;
  geometry.grid = smaller_than_int(spec.scheduler == Scheduler::single_tile ? blocks : std::clamp<std::int64_t>(resident, spec.cluster, blocks));
  return geometry;
}

TensorMapRequests make_tensor_maps(const ForwardSpec& spec, const ForwardProblem& problem, const ForwardCall& call) {
  const auto map_of = spec.ragged ? ragged_map : dense_map;
  TensorMapRequests maps{{map_of(call.q, spec.dtype, spec.block_m()), {}},
                         {map_of(call.k, spec.dtype, spec.block_n), {}},
                         {map_of(call.v, spec.dtype, spec.block_n), {}},
                         {map_of(call.out, spec.dtype, 16), {}}};
  if (problem.seqlen_k == 0 || problem.batch_of_k() == 0) {
    // No keys: the kernel masks the one block that it visits. It has to be read from somewhere, and Q is there.
    TensorMapRequest& any = maps.k.whole;
    any = dense_map(call.q, spec.dtype, spec.block_n);
    any.rank = maps.q.whole.rank;
    any.extent = {8, 1, 1, 1, 1};
    any.stride_bytes = {16, 16, 16, 16};
    maps.v.whole = any;
  }
  const LoadedColumns loaded = loaded_columns(spec, problem);
  add_last(maps.q, loaded.q, tile::kRowBytes);
  add_last(maps.k, loaded.k, tile::last_chunk_columns(spec.head_dim) * 2);
  add_last(maps.v, loaded.v, tile::kRowBytes);
  add_last(maps.out, loaded.v, tile::kRowBytes);
  return maps;
}

ForwardParams make_params(const LaunchGeometry& geometry, const ForwardProblem& problem, const ForwardCall& call, void* workspace) {
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
  params.counter = static_cast<unsigned long long*>(workspace);  // a TileList begins with it
  params.tile_list = problem.ragged() ? static_cast<const TileList*>(workspace) : nullptr;
  params.timeline = static_cast<unsigned long long*>(call.timeline);
  params.lse_stride_batch = call.lse_stride_batch;
  params.lse_stride_head = call.lse_stride_head;
  params.seqlen_q = smaller_than_int(problem.seqlen_q);
  params.seqlen_k = smaller_than_int(problem.seqlen_k);
  params.head_dim = smaller_than_int(problem.head_dim);
  params.head_dim_v = smaller_than_int(problem.head_dim_v);
  params.q_columns = geometry.loaded.q;
  params.k_columns = geometry.loaded.k;
  params.v_columns = geometry.loaded.v;
  const auto scale = [=](float value) { return std::clamp(value, kSmallestScale, kLargestScale); };
  params.scale_log2 = scale((problem.softcap ? call.softcap : call.softmax_scale) * kLog2E);
  params.cap_scale = problem.softcap ? std::min(call.softmax_scale / call.softcap, kLargestScale) : 0.0f;  // may be 0: the mask comes later
  params.gentle = gentle_score(params.scale_log2, params.cap_scale);
  params.sinks = call.sinks;
  const auto within = [](std::int64_t asked, std::int64_t furthest) { return smaller_than_int(std::min(asked, furthest + kBeyondKeys)); };
  const auto side = [&](std::int64_t asked, std::int64_t furthest) { return within(asked < 0 ? furthest + kBeyondKeys : asked, furthest); };
  params.window_left = side(problem.window_left, problem.seqlen_k);
  params.window_right = problem.causal ? 0 : side(problem.window_right, problem.seqlen_q);
  params.chunk = FastDivisor(within(std::max<std::int64_t>(problem.attention_chunk, 1), problem.seqlen_k));
  if (problem.attention_chunk == 0) params.chunk.divisor = 0;
  params.kv_group = FastDivisor(smaller_than_int(problem.num_heads / problem.num_heads_kv));
  params.order = geometry.order;
  return params;
}

PrepareParams make_prepare_params(const ForwardSpec& spec, const LaunchGeometry& geometry, const ForwardProblem& problem, const ForwardCall& call,
                                  void* workspace) {
  PrepareParams params{};
  params.cu_seqlens_q = call.cu_seqlens_q;
  params.cu_seqlens_k = call.cu_seqlens_k;
  params.seqused_q = call.seqused_q;
  params.seqused_k = call.seqused_k;
  params.list = static_cast<TileList*>(workspace);
  params.sequences = smaller_than_int(problem.batch);
  params.rows_q = smaller_than_int(problem.seqlen_q);
  params.rows_k = smaller_than_int(problem.seqlen_k);
  params.block_m = spec.block_m();
  params.block_n = spec.block_n;
  // From the first key that a tile's first query sees to the last one of its last query.
  std::int64_t span = problem.seqlen_k;
  const std::int64_t right = problem.causal ? 0 : problem.window_right;
  if (problem.window_left >= 0 && right >= 0) span = std::min(span, problem.window_left + right + spec.block_m());
  if (problem.attention_chunk > 0) span = std::min(span, problem.attention_chunk + spec.block_m());
  params.span = smaller_than_int(span);
  params.capacity = geometry.list_capacity;
  return params;
}

ForwardProblem problem_of_part(const ForwardProblem& problem, int part) {
  ForwardProblem own = problem;
  own.head_dim_v = std::min(problem.head_dim_v - part * kWidestV, kWidestV);
  return own;
}

ForwardCall call_of_part(const ForwardProblem& problem, const ForwardCall& call, int part) {
  ForwardCall own = call;
  for (Tensor* tensor : {&own.v, &own.out}) {
    tensor->data = static_cast<char*>(tensor->data) + part * kWidestV * size_of(tensor->type);
    tensor->shape[3] = problem_of_part(problem, part).head_dim_v;
  }
  if (part > 0) own.lse = nullptr;
  return own;
}

}  // namespace tandem
