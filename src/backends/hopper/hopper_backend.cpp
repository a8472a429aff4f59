// The backend that the library exists for: our kernels on an sm_90 GPU.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "backends/backend.hpp"
#include "backends/hopper/kernel_table.hpp"
#include "backends/hopper/layout.hpp"
#include "cuda/device.hpp"
#include "cuda/launcher.hpp"
#include "cuda/tensor_map.hpp"
#include "plan/planner.hpp"
#include "plan/spec_text.hpp"

namespace tandem {
namespace {

class HopperForward final : public ForwardExecutable {
 public:
  // `list_tiles`: the kernel that does so for a ragged batch; null where the batch is not ragged.
  HopperForward(const cuda::Driver& driver, CUcontext context, const cuda::Launcher& launcher, ForwardProblem problem, ForwardPlan plan, CUfunction function,
                CUfunction list_tiles)
      : driver_(driver),
        context_(context),
        launcher_(launcher),
        problem_(problem),
        plan_(std::move(plan)),
        list_tiles_{.function = list_tiles, .threads = kPrepareThreads} {
    const LaunchGeometry& geometry = plan_.geometry;
    forward_ = {function, geometry.grid, geometry.threads, geometry.shared_bytes, geometry.cluster};
  }

  const cuda::KernelLaunch& kernel() const { return forward_; }

  std::size_t workspace_size() const override { return plan_.geometry.workspace_bytes; }

  Status init_workspace(Workspace workspace, void* stream) const override {
    if (plan_.geometry.workspace_bytes == 0) return {};
    const cuda::ContextScope scope(driver_, context_);
    // From this constant: it outlives the copy, and pageable host memory is staged before the call returns.
    static constexpr unsigned long long kReady = kCounterMark;
    const CUresult result = driver_.memcpy_htod_async(reinterpret_cast<CUdeviceptr>(workspace.data), &kReady, sizeof kReady, static_cast<CUstream>(stream));
    if (result != CUDA_SUCCESS) return cuda::failure(driver_, result, "cuMemcpyHtoDAsync");
    return {};
  }

  Status run(const ForwardCall& call, Workspace workspace, void* stream) const override {
    if (std::string refusal = layout_refusal(call); !refusal.empty()) return {StatusCode::unsupported, std::move(refusal)};

    if (plan_.spec.timeline && call.timeline == nullptr)
      return {StatusCode::invalid_argument, "the spec notes a timeline and the call has no buffer for it; `tandem timeline` gives one"};

    const cuda::ContextScope scope(driver_, context_);
    if (scope.result() != CUDA_SUCCESS) return cuda::failure(driver_, scope.result(), "cuCtxPushCurrent");

    const auto on = static_cast<CUstream>(stream);
    if (list_tiles_.function != nullptr) {
      const PrepareParams params = make_prepare_params(plan_.spec, plan_.geometry, problem_, call, workspace.data);
      if (Status status = launcher_.launch(list_tiles_, params, on); !status.ok()) return status;
    }
    for (int part = 0; part < v_parts(problem_); ++part)
      if (Status status = run_part(problem_of_part(problem_, part), call_of_part(problem_, call, part), workspace, on); !status.ok()) return status;
    return {};
  }

  std::string describe() const override {
    return nlohmann::json{{"backend", "hopper"},
                          {"kernel", name_of(plan_.spec)},
                          {"spec", to_json(plan_.spec)},
                          {"reason", plan_.reason},
                          {"tuned", plan_.tuned},
                          {"grid", plan_.geometry.grid},
                          {"threads", plan_.geometry.threads},
                          {"shared_bytes", plan_.geometry.shared_bytes},
                          {"tiles", plan_.geometry.order.tiles},
                          {"parts", v_parts(problem_)}}
        .dump();
  }

 private:
  Status run_part(const ForwardProblem& problem, const ForwardCall& call, Workspace workspace, CUstream stream) const {
    // Each thread keeps the maps of its last run: the next one mostly moves the same layouts to other addresses.
    thread_local struct { cuda::EncodedMap whole, last; } maps[4];
    ForwardParams params = make_params(plan_.geometry, problem, call, workspace.data);
    const TensorMapRequests wanted = make_tensor_maps(plan_.spec, problem, call);
    const struct {
      const ChunkMapRequests& requests;
      ChunkMaps& made;
    } tensors[] = {{wanted.q, params.q_maps}, {wanted.k, params.k_maps}, {wanted.v, params.v_maps}, {wanted.out, params.out_maps}};
    for (std::size_t i = 0; i < std::size(tensors); ++i) {
      const auto& [requests, made] = tensors[i];
      if (Status status = cuda::encode(driver_, requests.whole, maps[i].whole); !status.ok()) return status;
      if (Status status = cuda::encode(driver_, requests.last, maps[i].last); !status.ok()) return status;
      made.whole = maps[i].whole.map;
      if (requests.last.needed()) made.last = maps[i].last.map;
    }
    return launcher_.launch(forward_, params, stream);
  }

  const cuda::Driver& driver_;
  CUcontext context_;
  const cuda::Launcher& launcher_;
  ForwardProblem problem_;
  ForwardPlan plan_;
  cuda::KernelLaunch list_tiles_, forward_;
};

// TANDEM_GRAPH_LAUNCH=0: plain launches, for measurements. See docs/ARCHITECTURE.md.
bool launches_by_graphs() {
  const char* const wish = std::getenv("TANDEM_GRAPH_LAUNCH");
  return wish == nullptr || std::string_view(wish) != "0";
}

class HopperBackend final : public Backend {
 public:
  HopperBackend(const cuda::Driver& driver, cuda::DeviceProperties device, cuda::PrimaryContext context, jit::KernelStore store)
      : driver_(driver),
        device_(std::move(device)),
        context_(std::move(context)),
        kernels_(driver, context_.get(), std::move(store)),
        launcher_(driver, context_.get()) {
    shape_.multiprocessors = device_.multiprocessors;
    // Queries and outputs pass through the cache too: a section of heads gets a little over half of it.
    shape_.section_bytes = std::max<std::int64_t>(device_.l2_bytes * 16 / 25, 1 << 20);
  }

  std::string_view name() const override { return "hopper"; }

  Status supports(const ForwardProblem& problem, const ForwardCall& call) const override {
    std::string reason = unsupported_reason(problem);
    if (reason.empty()) reason = layout_refusal(call);
    if (!reason.empty()) return {StatusCode::unsupported, std::move(reason)};
    return {};
  }

  Result<std::unique_ptr<ForwardExecutable>> prepare_forward(const ForwardProblem& problem) override {
    // For measurements: fields of the spec to change, and the megabytes of K and V to work on together.
    const char* const fields = std::getenv("TANDEM_FORWARD_SPEC");
    const char* const section = std::getenv("TANDEM_SECTION_MB");
    auto plan = plan_forward(problem, shape_, fields == nullptr ? "" : fields);
    if (plan.ok() && section != nullptr && std::atoll(section) > 0)
      plan.value().geometry = make_geometry(plan.value().spec, problem_of_part(problem, 0), shape_.multiprocessors, std::atoll(section) << 20);
    if (!plan.ok()) return plan.status();
    auto function = kernels_.get(plan.value().spec);
    if (!function.ok() && plan.value().spec.head_dim_v % 16 != 0) {
      // Without a compiler: packs hold the widths that ship, and the next one serves too.
      plan.value().spec.head_dim_v = tile_width(plan.value().spec.head_dim_v);
      plan.value().geometry.loaded = loaded_columns(plan.value().spec, problem_of_part(problem, 0));
      if (auto wider = kernels_.get(plan.value().spec); wider.ok()) function = std::move(wider);
    }
    if (!function.ok()) return function.status();
    CUfunction list_tiles = nullptr;
    if (problem.ragged()) {
      auto loaded = kernels_.get_prepare();
      if (!loaded.ok()) return loaded.status();
      list_tiles = loaded.value();
    }
    auto executable = std::make_unique<HopperForward>(driver_, context_.get(), launcher_, problem, std::move(plan).value(), function.value(), list_tiles);
    if (launches_by_graphs()) {
      const cuda::ContextScope scope(driver_, context_.get());
      if (scope.result() != CUDA_SUCCESS) return cuda::failure(driver_, scope.result(), "cuCtxPushCurrent");
      launcher_.make_graphs(executable->kernel());
    }
    return std::unique_ptr<ForwardExecutable>(std::move(executable));
  }

 private:
  const cuda::Driver& driver_;
  cuda::DeviceProperties device_;
  cuda::PrimaryContext context_;
  KernelTable kernels_;
  cuda::Launcher launcher_;
  DeviceShape shape_;
};

}  // namespace

Result<std::unique_ptr<Backend>> make_hopper_backend(const BackendOptions& options) {
  auto driver = cuda::driver();
  if (!driver.ok()) return driver.status();
  auto device = cuda::device_properties(options.device);
  if (!device.ok()) return device.status();
  const cuda::DeviceProperties& properties = device.value();
  if (properties.compute_major != 9 || properties.compute_minor != 0)
    return Status(StatusCode::unavailable, fmt::format("device {} is {} with compute capability {}.{}; the Hopper kernels need 9.0 (H100, H200, H800, H20)",
                                                       options.device, properties.name, properties.compute_major, properties.compute_minor));
  auto context = cuda::PrimaryContext::retain(options.device);
  if (!context.ok()) return context.status();
  return std::unique_ptr<Backend>(std::make_unique<HopperBackend>(*driver.value(), std::move(device).value(), std::move(context).value(),
                                                                  jit::KernelStore(jit::KernelCache(options.cache_dir))));
}

}  // namespace tandem
