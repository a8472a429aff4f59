#include "forward/run.hpp"

#include <vector>

#include "attention/params.hpp"
#include "attention/timeline_event.hpp"
#include "forward/shipped_images.hpp"
#include "machine/tensor_map.hpp"
#include "plan/launch.hpp"

namespace tandem::model {
namespace {

DecodedMap decoded(const TensorMapRequest& request) {
  DecodedMap map;
  map.base = static_cast<const unsigned char*>(request.base);
  map.rank = static_cast<int>(request.rank);
  map.element_bytes = 2;
  map.swizzle = swizzle_of(request.swizzle_bytes);
  map.stride_bytes[0] = 2;
  for (std::size_t i = 0; i < request.rank; ++i) {
    map.extent[i] = request.extent[i];
    map.box[i] = request.box[i];
    if (i > 0) map.stride_bytes[i] = request.stride_bytes[i - 1];
  }
  return map;
}

ChunkMaps encoded(const ChunkMapRequests& requests) {
  ChunkMaps maps{encode(decoded(requests.whole)), {}};
  if (requests.last.needed()) maps.last = encode(decoded(requests.last));
  return maps;
}

GlobalTensor global(const char* name, const Tensor& tensor, const char* row_name, GlobalAccess access) {
  GlobalTensor out;
  out.name = name;
  out.data = tensor.data;
  const std::int64_t bytes = size_of(tensor.type);
  for (std::size_t i = 0; i < 3; ++i) {
    out.extent[i] = tensor.shape[i];
    out.stride_bytes[i] = tensor.stride[i] * bytes;
  }
  out.row_bytes = tensor.shape[3] * bytes;
  out.access = access;
  out.index_names = {"batch", row_name, "head"};
  return out;
}

GlobalTensor flat(const char* name, const void* data, std::int64_t bytes, GlobalAccess access) {
  GlobalTensor out;
  out.name = name;
  out.data = const_cast<void*>(data);  // what may be written says `access`
  out.row_bytes = bytes;
  out.access = access;
  return out;
}

LaunchReport run_prepare(const ForwardLaunch& launch, const LaunchGeometry& geometry, void* workspace) {
  const ForwardProblem& problem = launch.problem;
  const ForwardCall& call = launch.call;
  const PrepareParams params = make_prepare_params(launch.spec, geometry, problem, call, workspace);
  GlobalMemory memory;
  const auto add = [&](const char* name, const std::int32_t* data, std::int64_t count) {
    if (data != nullptr) memory.add(flat(name, data, count * 4, GlobalAccess::read_only));
  };
  add("cu_seqlens_q", call.cu_seqlens_q, problem.batch + 1);
  add("cu_seqlens_k", call.cu_seqlens_k, problem.batch + 1);
  add("seqused_q", call.seqused_q, problem.batch);
  add("seqused_k", call.seqused_k, problem.batch);
  memory.add(flat("tile list", workspace, static_cast<std::int64_t>(geometry.workspace_bytes), GlobalAccess::read_write));
  LaunchConfig config;
  config.grid = 1;
  config.params = &params;
  config.params_bytes = sizeof params;
  config.memory = &memory;
  config.seed = launch.seed;
  return tandem::model::launch(prepare_image(), config);
}

LaunchReport run_part(const ForwardLaunch& launch, const ForwardProblem& problem, const ForwardCall& call, const LaunchGeometry& geometry, void* workspace) {
  ForwardParams params = make_params(geometry, problem, call, workspace);
  const TensorMapRequests maps = make_tensor_maps(launch.spec, problem, call);
  params.q_maps = encoded(maps.q);
  params.k_maps = encoded(maps.k);
  params.v_maps = encoded(maps.v);
  params.out_maps = encoded(maps.out);

  GlobalMemory memory;
  memory.add(global("q", call.q, "query", GlobalAccess::read_only));
  memory.add(global("k", call.k, "key", GlobalAccess::read_only));
  memory.add(global("v", call.v, "key", GlobalAccess::read_only));
  memory.add(global("out", call.out, "query", GlobalAccess::write_once));
  if (call.lse != nullptr) {
    GlobalTensor lse;
    lse.name = "lse";
    lse.data = call.lse;
    lse.extent = {problem.batch_of_q(), problem.num_heads, 1};
    lse.stride_bytes = {call.lse_stride_batch * 4, call.lse_stride_head * 4, 0};
    lse.row_bytes = problem.seqlen_q * 4;
    lse.access = GlobalAccess::write_once;
    lse.index_names = {"batch", "head", ""};
    memory.add(lse);
  }
  if (geometry.workspace_bytes > 0)
    memory.add(flat(problem.ragged() ? "tile list" : "counter", workspace, static_cast<std::int64_t>(geometry.workspace_bytes), GlobalAccess::read_write));
  if (call.sinks != nullptr) memory.add(flat("sinks", call.sinks, problem.num_heads * 4, GlobalAccess::read_only));
  if (call.timeline != nullptr) {
    memory.add(flat("timeline", call.timeline, timeline_bytes(geometry.grid), GlobalAccess::read_write));
  }

  LaunchConfig config;
  config.grid = geometry.grid;
  config.params = &params;
  config.params_bytes = sizeof params;
  config.memory = &memory;
  config.seed = launch.seed;
  config.timed = launch.timed;
  return tandem::model::launch(*launch.kernel, config);
}

}  // namespace

LaunchReport run_forward(const ForwardLaunch& launch) {
  const ForwardProblem& problem = launch.problem;
  const LaunchGeometry geometry = make_geometry(launch.spec, problem_of_part(problem, 0), launch.multiprocessors, launch.section_bytes);
  struct alignas(16) Line {
    unsigned char bytes[16];
  };
  std::vector<Line> own;
  void* workspace = launch.workspace;
  if (workspace == nullptr) {
    own.resize(geometry.workspace_bytes / sizeof(Line) + 1);
    workspace = own.data();
    *static_cast<unsigned long long*>(workspace) = kCounterMark;
  }
  LaunchReport report;
  if (problem.ragged()) report = run_prepare(launch, geometry, workspace);
  for (int part = 0; part < v_parts(problem) && report.ok(); ++part)
    report = run_part(launch, problem_of_part(problem, part), call_of_part(problem, launch.call, part), geometry, workspace);
  return report;
}

}  // namespace tandem::model
