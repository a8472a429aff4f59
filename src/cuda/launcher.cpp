#include "cuda/launcher.hpp"

#include <algorithm>
#include <cstring>

#include "cuda/device.hpp"

namespace tandem::cuda {
namespace {

// cuda.h has the argument as a pointer to what is not const, and only reads it.
void* argument(std::span<const std::byte> parameters) { return const_cast<std::byte*>(parameters.data()); }

CUDA_KERNEL_NODE_PARAMS node_parameters(const KernelLaunch& kernel, void** arguments) {
  CUDA_KERNEL_NODE_PARAMS node{};
  node.func = kernel.function;
  node.gridDimX = static_cast<unsigned>(kernel.grid);
  node.gridDimY = node.gridDimZ = 1;
  node.blockDimX = static_cast<unsigned>(kernel.threads);
  node.blockDimY = node.blockDimZ = 1;
  node.sharedMemBytes = static_cast<unsigned>(kernel.shared_bytes);
  node.kernelParams = arguments;
  return node;
}

// While graphs are made this thread may allocate, though some stream of the process be under capture: what it does is no part of that.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) : driver_(driver) { driver_.thread_exchange_stream_capture_mode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() { driver_.thread_exchange_stream_capture_mode(&mode_); }

 private:
  const Driver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace

Launcher::~Launcher() {
  if (graphs_[0].graph == nullptr) return;
  const ContextScope scope(driver_, context_);
  for (const StreamGraph& each : graphs_) {
    if (each.executable != nullptr) driver_.graph_exec_destroy(each.executable);  // one that still runs ends first
    if (each.graph != nullptr) driver_.graph_destroy(each.graph);
  }
}

void Launcher::make_graphs(const KernelLaunch& kernel) {
  std::call_once(made_once_, [&] {
    const RelaxedCapture relaxed(driver_);
    alignas(64) static constexpr std::byte kBlank[kMostBytes] = {};  // nodes are made with parameters, which the first launch replaces
    void* arguments[] = {argument(kBlank)};
    const CUDA_KERNEL_NODE_PARAMS parameters = node_parameters(kernel, arguments);
    for (StreamGraph& each : graphs_) {
      if (driver_.graph_create(&each.graph, 0) != CUDA_SUCCESS ||
          driver_.graph_add_kernel_node(&each.node, each.graph, nullptr, 0, &parameters) != CUDA_SUCCESS ||
          driver_.graph_instantiate(&each.executable, each.graph, 0) != CUDA_SUCCESS)
        return;
      made_.fetch_add(1, std::memory_order_release);
    }
  });
}

Launcher::StreamGraph* Launcher::graph_of(CUstream stream) const {
  const int made = made_.load(std::memory_order_acquire);
  // CU_STREAM_PER_THREAD names another stream on each thread.
  if (made == 0 || stream == CU_STREAM_PER_THREAD) return nullptr;
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  if (driver_.stream_is_capturing(stream, &capture) != CUDA_SUCCESS || capture != CU_STREAM_CAPTURE_STATUS_NONE) return nullptr;
  unsigned long long id = kNoStream;
  if (driver_.stream_get_id(stream, &id) != CUDA_SUCCESS) return nullptr;
  int known = 0;
  for (; known < made; ++known) {
    const unsigned long long owner = graphs_[known].stream.load(std::memory_order_relaxed);
    if (owner == id) return &graphs_[known];
    if (owner == kNoStream) break;  // graphs are given away in order
  }
  if (known == made) return nullptr;
  // A plain launch refuses a stream of another context, and honours the share of the GPU that a green context's streams have.
  CUcontext context = nullptr;
  CUgreenCtx share = nullptr;
  if (driver_.stream_get_ctx == nullptr || driver_.stream_get_ctx(stream, &context, &share) != CUDA_SUCCESS || share != nullptr || context != context_)
    return nullptr;
  for (int i = known; i < made; ++i) {
    unsigned long long owner = kNoStream;
    if (graphs_[i].stream.compare_exchange_strong(owner, id, std::memory_order_relaxed) || owner == id) return &graphs_[i];
  }
  return nullptr;
}

Launcher::StreamGraph* Launcher::take_graph(CUstream stream) const {
  StreamGraph* const graph = graph_of(stream);
  return graph == nullptr || graph->busy.test_and_set(std::memory_order_acquire) ? nullptr : graph;
}

bool Launcher::set(StreamGraph& graph, const KernelLaunch& kernel, std::span<const std::byte> parameters) const {
  const bool stands = graph.size == parameters.size() && std::memcmp(graph.parameters.data(), parameters.data(), graph.size) == 0;
  if (stands && graph.kernel == kernel) return true;
  void* arguments[] = {argument(parameters)};
  const CUDA_KERNEL_NODE_PARAMS node = node_parameters(kernel, arguments);
  const bool done = driver_.graph_exec_kernel_node_set_params(graph.executable, graph.node, &node) == CUDA_SUCCESS;
  graph.kernel = kernel;
  graph.size = done ? parameters.size() : 0;
  std::ranges::copy(parameters, graph.parameters.begin());
  return done;
}

Status Launcher::launch_bytes(const KernelLaunch& kernel, std::span<const std::byte> parameters, CUstream stream) const {
  if (StreamGraph* const graph = kernel.cluster == 1 ? take_graph(stream) : nullptr) {
    const bool launched = set(*graph, kernel, parameters) && driver_.graph_launch(graph->executable, stream) == CUDA_SUCCESS;
    graph->busy.clear(std::memory_order_release);
    if (launched) return {};
  }
  return launch_plainly(kernel, parameters, stream);  // which says what is wrong, if it is not the graph
}

Status Launcher::launch_plainly(const KernelLaunch& kernel, std::span<const std::byte> parameters, CUstream stream) const {
  CUlaunchAttribute cluster{};
  cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster.value.clusterDim = {static_cast<unsigned>(kernel.cluster), 1, 1};
  CUlaunchConfig config{};
  config.gridDimX = static_cast<unsigned>(kernel.grid);
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = static_cast<unsigned>(kernel.threads);
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = static_cast<unsigned>(kernel.shared_bytes);
  config.hStream = stream;
  config.attrs = &cluster;
  config.numAttrs = kernel.cluster > 1 ? 1 : 0;
  void* arguments[] = {argument(parameters)};
  if (const CUresult result = driver_.launch_kernel_ex(&config, kernel.function, arguments, nullptr); result != CUDA_SUCCESS)
    return failure(driver_, result, "cuLaunchKernelEx");
  return {};
}

}  // namespace tandem::cuda
