// The CPU backend: FlashAttention-2's algorithm on the vector units of the machine. FP32 arithmetic, the whole contract, every layout.
//
// A run borrows one scratch buffer for each thread that takes part, and one for the list of a ragged batch; buffers are kept for later runs,
// so a repeated run allocates nothing.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <thread>

#include "backends/backend.hpp"
#include "backends/cpu/forward_kernel.hpp"
#include "backends/cpu/forward_task.hpp"
#include "backends/cpu/scratch.hpp"
#include "backends/cpu/thread_pool.hpp"

namespace tandem {
namespace {

using cpu::ForwardKernel;
using cpu::ForwardTask;
using cpu::Sequence;

// What the backend and everything prepared by it share.
struct Engine {
  explicit Engine(int threads) : pool(threads), kernel(cpu::best_forward_kernel()) {}

  cpu::ThreadPool pool;
  cpu::ScratchPool scratch;
  ForwardKernel kernel;
};

// As many rows as K and V tiles should be read for, while queries and outputs stay in the cache and every thread gets work.
std::int64_t choose_rows_per_item(const ForwardProblem& problem, const ForwardKernel& kernel, int threads) {
  constexpr std::int64_t kCacheBytes = 256 * 1024;
  const std::int64_t panel = kernel.panel_rows;
  const std::int64_t rows = problem.expected_q() * (problem.num_heads / problem.num_heads_kv);
  const std::int64_t cached = kCacheBytes / (4 * (problem.head_dim + problem.head_dim_v));
  std::int64_t panels = std::clamp<std::int64_t>(cached / panel, 1, cpu::kMaxRowsPerItem / panel);
  panels = std::min(panels, std::max<std::int64_t>(1, (rows + panel - 1) / panel));
  const auto items = [&](std::int64_t p) { return problem.batch_of_q() * problem.num_heads_kv * ((rows + p * panel - 1) / (p * panel)); };
  while (panels > 1 && threads > 1 && items(panels) < 4 * threads) panels = (panels + 1) / 2;
  return panels * panel;
}

// Waking a thread costs about as much as this many operations.
constexpr double kFlopsPerThread = 2e6;

double flops_of(const ForwardProblem& problem) {
  const double keys = static_cast<double>(problem.expected_k()) * (problem.causal ? 0.5 : 1.0);
  return 2.0 * static_cast<double>(problem.batch_of_q() * problem.num_heads) * static_cast<double>(problem.seqlen_q) * keys *
         static_cast<double>(problem.head_dim + problem.head_dim_v);
}

class CpuForward final : public ForwardExecutable {
 public:
  CpuForward(std::shared_ptr<Engine> engine, const ForwardProblem& problem)
      : engine_(std::move(engine)),
        problem_(problem),
        rows_per_item_(choose_rows_per_item(problem, engine_->kernel, engine_->pool.size())),
        scratch_floats_(engine_->kernel.scratch_floats(problem, rows_per_item_)),
        width_(static_cast<int>(std::min<double>(engine_->pool.size(), 1.0 + flops_of(problem) / kFlopsPerThread))) {}

  Status run(const ForwardCall& call, Workspace /*workspace*/, void* /*stream*/) const override {
    try {
      const auto room = static_cast<std::size_t>(cpu::max_sequences(problem_));
      const cpu::ScratchPool::Loan list(engine_->scratch, room == 0 ? 0 : 1, room * sizeof(Sequence) / sizeof(float));
      const std::span<Sequence> sequences(room == 0 ? nullptr : reinterpret_cast<Sequence*>(list[0]), room);
      std::uninitialized_default_construct(sequences.begin(), sequences.end());
      const ForwardTask task = cpu::make_forward_task(problem_, call, rows_per_item_, sequences);
      if (task.items == 0) return {};
      const int width = static_cast<int>(std::min<std::int64_t>(width_, task.items));
      const cpu::ScratchPool::Loan scratch(engine_->scratch, width, scratch_floats_);
      std::atomic<std::int64_t> next{0};
      // Several small items at a time, so that the counter does not become the bottleneck.
      const std::int64_t take = std::max<std::int64_t>(1, task.items / (std::int64_t{64} * width));
      engine_->pool.run(width, [&](int worker) noexcept {
        while (true) {
          const std::int64_t first = next.fetch_add(take, std::memory_order_relaxed);
          if (first >= task.items) return;
          const std::int64_t last = std::min(first + take, task.items);
          for (std::int64_t item = first; item < last; ++item) engine_->kernel.run_item(task, item, scratch[worker]);
        }
      });
      return {};
    } catch (const std::bad_alloc&) {
      return {StatusCode::out_of_memory, fmt::format("cpu backend: no memory for {} bytes of scratch a thread", scratch_floats_ * sizeof(float))};
    } catch (const std::exception& error) {
      return {StatusCode::internal_error, fmt::format("cpu backend: {}", error.what())};
    }
  }

  std::string describe() const override {
    const nlohmann::json description = {
        {"backend", "cpu"},
        {"threads", width_},
        {"target", engine_->kernel.target},
        {"block_q", rows_per_item_},
        {"panel_q", engine_->kernel.panel_rows},
        {"block_k", engine_->kernel.tile_keys},
        {"scratch_bytes_per_thread", scratch_floats_ * sizeof(float)},
        {"reason", "query rows of the heads that share a KV head are packed; block_q is what fits the cache and gives every thread work"},
    };
    return description.dump();
  }

 private:
  std::shared_ptr<Engine> engine_;
  ForwardProblem problem_;
  std::int64_t rows_per_item_;
  std::size_t scratch_floats_;
  int width_;
};

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(int threads) : engine_(std::make_shared<Engine>(threads)) {}

  std::string_view name() const override { return "cpu"; }

  // Any lengths, head dimensions, strides and alignment.
  Status supports(const ForwardProblem& problem, const ForwardCall& /*call*/) const override {
    if (problem.num_heads_kv <= 0 ? problem.num_heads != 0 : problem.num_heads % problem.num_heads_kv != 0) {
      return {StatusCode::invalid_argument,
              fmt::format("q has {} heads, which is not a multiple of the {} heads of k and v", problem.num_heads, problem.num_heads_kv)};
    }
    constexpr std::int64_t kMaxHeadDim = 1 << 16;
    if (problem.head_dim < 1 || problem.head_dim > kMaxHeadDim) {
      return {StatusCode::unsupported, fmt::format("head_dim is {}; the cpu backend takes 1 to {}", problem.head_dim, kMaxHeadDim)};
    }
    if (problem.head_dim_v < 1 || problem.head_dim_v > kMaxHeadDim) {
      return {StatusCode::unsupported, fmt::format("head_dim_v is {}; the cpu backend takes 1 to {}", problem.head_dim_v, kMaxHeadDim)};
    }
    return {};
  }

  Result<std::unique_ptr<ForwardExecutable>> prepare_forward(const ForwardProblem& problem) override {
    if (const Status status = supports(problem, {}); !status.ok()) return status;
    try {
      return std::unique_ptr<ForwardExecutable>(std::make_unique<CpuForward>(engine_, problem));
    } catch (const std::bad_alloc&) {
      return Status(StatusCode::out_of_memory, "cpu backend: no memory to prepare a forward");
    }
  }

 private:
  std::shared_ptr<Engine> engine_;
};

}  // namespace

Result<std::unique_ptr<Backend>> make_cpu_backend(const BackendOptions& options) {
  constexpr int kMaxThreads = 4096;
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return Status(StatusCode::invalid_argument,
                  fmt::format("threads is {}; the cpu backend takes 1 to {}, or 0 for one on each core", options.threads, kMaxThreads));
  }
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int threads = options.threads == 0 ? cores : options.threads;
  try {
    return std::unique_ptr<Backend>(std::make_unique<CpuBackend>(threads));
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::out_of_memory, "cpu backend: no memory for its threads");
  } catch (const std::exception& error) {
    return Status(StatusCode::unavailable, fmt::format("cpu backend: cannot start {} threads: {}", threads, error.what()));
  }
}

}  // namespace tandem
