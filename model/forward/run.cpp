#include "forward/run.hpp"

#include "attention/params.hpp"
#include "attention/timeline_event.hpp"
#include "machine/tensor_map.hpp"
#include "plan/launch.hpp"

namespace tandem::model {
namespace {

DecodedMap decoded(const TensorMapRequest& request) {
  DecodedMap map;
  map.base = static_cast<const unsigned char*>(request.base);
  map.rank = 4;
  map.element_bytes = 2;
  map.swizzle = Swizzle::bytes128;
  map.stride_bytes[0] = 2;
  for (std::size_t i = 0; i < 4; ++i) {
    map.extent[i] = request.extent[i];
    map.box[i] = request.box[i];
    if (i > 0) map.stride_bytes[i] = request.stride_bytes[i - 1];
  }
  return map;
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

}  // namespace

LaunchReport run_forward(const ForwardLaunch& launch) {
  const ForwardProblem& problem = launch.problem;
  const ForwardCall& call = launch.call;
  const LaunchGeometry geometry = make_geometry(launch.spec, problem, launch.multiprocessors, launch.section_bytes);
  unsigned long long own_counter = kCounterMark;
  unsigned long long* const counter = launch.counter != nullptr ? launch.counter : &own_counter;
  ForwardParams params = make_params(geometry, problem, call, counter);
  const TensorMapRequests maps = make_tensor_maps(launch.spec, problem, call);
  params.q_map = encode(decoded(maps.q));
  params.k_map = encode(decoded(maps.k));
  params.v_map = encode(decoded(maps.v));
  params.out_map = encode(decoded(maps.out));

  GlobalMemory memory;
  memory.add(global("q", call.q, "query", GlobalAccess::read_only));
  memory.add(global("k", call.k, "key", GlobalAccess::read_only));
  memory.add(global("v", call.v, "key", GlobalAccess::read_only));
  memory.add(global("out", call.out, "query", GlobalAccess::write_once));
  if (call.lse != nullptr) {
    GlobalTensor lse;
    lse.name = "lse";
    lse.data = call.lse;
    lse.extent = {problem.batch, problem.num_heads, 1};
    lse.stride_bytes = {call.lse_stride_batch * 4, call.lse_stride_head * 4, 0};
    lse.row_bytes = problem.seqlen_q * 4;
    lse.access = GlobalAccess::write_once;
    lse.index_names = {"batch", "head", ""};
    memory.add(lse);
  }
  GlobalTensor workspace;
  workspace.name = "counter";
  workspace.data = counter;
  workspace.row_bytes = sizeof *counter;
  workspace.access = GlobalAccess::read_write;
  memory.add(workspace);

  if (call.timeline != nullptr) {
    GlobalTensor timeline;
    timeline.name = "timeline";
    timeline.data = call.timeline;
    timeline.row_bytes = timeline_bytes(geometry.grid);
    timeline.access = GlobalAccess::read_write;
    memory.add(timeline);
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

}  // namespace tandem::model
