#include "host_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <vector>

#include "attention.hpp"
#include "child.hpp"
#include "cuda/device.hpp"
#include "failure.hpp"
#include "json_output.hpp"
#include "values.hpp"

namespace tandem::cli {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) { return std::chrono::duration<double, std::milli>(Clock::now() - start).count(); }

// A call that the GPU finishes sooner than the host can issue it.
AttentionInputs small_inputs(DataType dtype) {
  AttentionInputs inputs{.q = make_tensor({1, 128, 2, 128}, dtype, Layout::bshd),
                         .k = make_tensor({1, 128, 2, 128}, dtype, Layout::bshd),
                         .v = make_tensor({1, 128, 2, 128}, dtype, Layout::bshd),
                         .scale = 0.088388f};
  fill(inputs.q, Values::normal, 1);
  fill(inputs.k, Values::normal, 2);
  fill(inputs.v, Values::normal, 3);
  return inputs;
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tandem-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) fail("no temporary folder could be made in {}", std::filesystem::temp_directory_path().string());
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The CUDA context that a process with tensors on a GPU has before it calls us; null without a GPU.
std::optional<cuda::PrimaryContext> cuda_context(int device) {
  auto context = cuda::PrimaryContext::retain(device);
  if (!context.ok()) return std::nullopt;
  return std::move(context).value();
}

std::string first_call(const BackendChoice& choice, DataType dtype) {
  const AttentionInputs inputs = small_inputs(dtype);
  const HostTensor blank = make_tensor(inputs.q.shape, dtype, Layout::bshd);
  const auto before = Clock::now();
  const auto callers = cuda_context(choice.device);
  const double cuda = milliseconds_since(before);
  const auto start = Clock::now();
  const Context context = choice.open();
  const double opened = milliseconds_since(start);
  const ForwardPlan plan = require(context.prepare(arguments_of(inputs, blank)));
  const double prepared = milliseconds_since(start);
  const auto memory = memory_of(context.backend(), choice.device);
  Attention attention(context, *memory, inputs, blank, true);
  attention.run();
  memory->synchronize();
  return Json{{"backend", context.backend()}, {"total", milliseconds_since(start)}, {"context", opened}, {"prepare", prepared - opened}, {"cuda", cuda}}.dump();
}

std::string prepared_calls(const BackendChoice& choice, DataType dtype) {
  const AttentionInputs inputs = small_inputs(dtype);
  const HostTensor blank = make_tensor(inputs.q.shape, dtype, Layout::bshd);
  const Context context = choice.open();
  const auto memory = memory_of(context.backend(), choice.device);
  Attention attention(context, *memory, inputs, blank, true);
  constexpr int kBatches = 50, kCallsABatch = 100;  // few enough that the launch queue never fills
  std::vector<double> microseconds;
  for (int batch = 0; batch < kBatches; ++batch) {
    for (int i = 0; i < kCallsABatch; ++i) {
      const auto start = Clock::now();
      attention.run();
      microseconds.push_back(milliseconds_since(start) * 1e3);
    }
    memory->synchronize();
  }
  std::sort(microseconds.begin(), microseconds.end());
  return Json{{"median", microseconds[microseconds.size() / 2]}, {"p90", microseconds[microseconds.size() * 9 / 10]}}.dump();
}

Json in_child(const std::function<std::string()>& work) {
  const ChildResult result = run_child(work);
  Json json = Json::parse(result.output, nullptr, /*allow_exceptions=*/false);
  if (!result.finished || !json.is_object()) throw Failure(result.output);
  return json;
}

}  // namespace

HostCost measure_host_cost(const BackendChoice& choice, DataType dtype) {
  const TemporaryFolder folder;
  BackendChoice fresh = choice;
  fresh.cache_dir = folder.path().string();
  const Json cold = in_child([&] { return first_call(fresh, dtype); });
  const Json warm = in_child([&] { return first_call(fresh, dtype); });
  // A process keeps the core that it got, near the GPU or far from it: 2 and 3.5 us were seen on one machine. So the median of several.
  constexpr std::size_t kProcesses = 5;
  std::vector<Json> processes;
  while (processes.size() < kProcesses) processes.push_back(in_child([&] { return prepared_calls(fresh, dtype); }));
  std::ranges::sort(processes, {}, [](const Json& each) { return each["median"].get<double>(); });
  const Json& calls = processes[kProcesses / 2];
  return {.backend = warm["backend"].get<std::string>(),
          .run_median_us = calls["median"].get<double>(),
          .run_p90_us = calls["p90"].get<double>(),
          .run_least_us = processes.front()["median"].get<double>(),
          .run_most_us = processes.back()["median"].get<double>(),
          .cold_ms = cold["total"].get<double>(),
          .warm_ms = warm["total"].get<double>(),
          .warm_context_ms = warm["context"].get<double>(),
          .warm_prepare_ms = warm["prepare"].get<double>(),
          .cuda_context_ms = warm["cuda"].get<double>()};
}

}  // namespace tandem::cli
