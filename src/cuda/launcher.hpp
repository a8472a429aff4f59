// Launches kernels: plainly, or, once graphs are made, as the one node of an executable graph, whose kernel and parameters are set where they differ
// from those of the launch before. That costs the host about half of what cuLaunchKernelEx does (docs/ARCHITECTURE.md).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <span>
#include <type_traits>

#include "cuda/driver.hpp"

namespace tandem::cuda {

struct KernelLaunch {
  CUfunction function = nullptr;
  int grid = 1, threads = 1, shared_bytes = 0;
  int cluster = 1;  // blocks

  bool operator==(const KernelLaunch&) const = default;
};

class Launcher {
 public:
  // Streams that get a graph. Two launches of one graph wait for each other wherever they run, so each belongs to one stream for good.
  static constexpr int kStreams = 16;

  Launcher(const Driver& driver, CUcontext context) : driver_(driver), context_(context) {}
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  ~Launcher();

  // At the first call, makes the graphs. `kernel`: one that will be launched, loaded in the context, which must be current.
  void make_graphs(const KernelLaunch& kernel);

  // Launches a kernel on `stream`, which belongs to the context; `parameters`: its one argument, copied before this returns. Plain launches go to streams
  // beyond the first kStreams, to the default stream of a thread, to a stream that is being captured, beside another thread's launch on the same
  // stream, where the driver made no graph, and to clusters. Neither allocates nor synchronises; from any thread.
  template <class Parameters>
  Status launch(const KernelLaunch& kernel, const Parameters& parameters, CUstream stream) const {
    static_assert(sizeof(Parameters) <= kMostBytes && std::is_trivially_copyable_v<Parameters>);
    return launch_bytes(kernel, std::as_bytes(std::span(&parameters, 1)), stream);
  }

 private:
  static constexpr std::size_t kMostBytes = 1408;  // of parameters: all that ForwardParams has, eight tensor maps among them

  static constexpr unsigned long long kNoStream = ~0ull;  // ids are counted

  // Of one node. Each has a graph of its own: the driver does not let two threads into one at a time.
  struct StreamGraph {
    CUgraph graph = nullptr;
    CUgraphNode node = nullptr;
    CUgraphExec executable = nullptr;
    std::atomic<unsigned long long> stream = kNoStream;  // its id, which no later stream gets again
    std::atomic_flag busy;
    // What the node is set to: nothing yet, while `size` is 0.
    KernelLaunch kernel;
    std::size_t size = 0;
    alignas(64) std::array<std::byte, kMostBytes> parameters{};
  };

  // Of this stream, or one that is its own from now on, and busy with this launch; null where there is none for it.
  StreamGraph* take_graph(CUstream stream) const;
  StreamGraph* graph_of(CUstream stream) const;
  bool set(StreamGraph& graph, const KernelLaunch& kernel, std::span<const std::byte> parameters) const;
  Status launch_bytes(const KernelLaunch& kernel, std::span<const std::byte> parameters, CUstream stream) const;
  Status launch_plainly(const KernelLaunch& kernel, std::span<const std::byte> parameters, CUstream stream) const;

  const Driver& driver_;
  CUcontext context_;
  std::once_flag made_once_;
  std::atomic<int> made_ = 0;
  mutable std::array<StreamGraph, kStreams> graphs_;
};

}  // namespace tandem::cuda
