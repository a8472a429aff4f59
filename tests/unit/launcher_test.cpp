// Which launches go through a graph: on a driver of ours that notes its calls.
#include "cuda/launcher.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tandem::cuda {
namespace {

constexpr std::uintptr_t kContext = 5;

// What the driver was asked on this thread: plain functions have no other place for it.
struct Calls {
  int sets = 0, graphs_made = 0, graphs_destroyed = 0, executables_made = 0, executables_destroyed = 0, most_executables = 1000;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::vector<std::string> launches;  // "graph 1 on 7: kernel 3, 10", "plain on 7: kernel 3, 10"
  std::string set;                    // what the graph at hand will launch
  bool capturing = false, green = false, elsewhere = false, set_fails = false, launch_fails = false;
};
thread_local Calls calls;
thread_local CUcontext current = nullptr;

template <class Handle>
Handle handle(std::uintptr_t value) {
  return reinterpret_cast<Handle>(value);
}
std::string text(std::uintptr_t value) { return std::to_string(value); }
template <class Handle>
std::uintptr_t number(Handle handle) {
  return reinterpret_cast<std::uintptr_t>(handle);
}

std::string launched(CUfunction function, unsigned grid, unsigned threads, unsigned shared_bytes, void** parameters) {
  int value = 0;
  std::memcpy(&value, parameters[0], sizeof value);
  std::string launch = "kernel ";
  for (const std::uintptr_t each : {number(function), std::uintptr_t{grid}, std::uintptr_t{threads}, std::uintptr_t{shared_bytes}}) launch += text(each) + " ";
  return launch + "with " + std::to_string(value);
}

Driver noting_driver() {
  Driver driver{};
  driver.get_error_name = [](CUresult, const char** name) { return *name = "ERROR", CUDA_SUCCESS; };
  driver.get_error_string = [](CUresult, const char** name) { return *name = "said by the test", CUDA_SUCCESS; };
  driver.thread_exchange_stream_capture_mode = [](CUstreamCaptureMode* mode) { return std::swap(*mode, calls.mode), CUDA_SUCCESS; };
  driver.graph_create = [](CUgraph* graph, unsigned) {
    *graph = handle<CUgraph>(static_cast<std::uintptr_t>(++calls.graphs_made));
    return CUDA_SUCCESS;
  };
  driver.ctx_get_current = [](CUcontext* context) { return *context = current, CUDA_SUCCESS; };
  driver.ctx_push_current = [](CUcontext context) { return current = context, CUDA_SUCCESS; };
  driver.ctx_pop_current = [](CUcontext* context) { return *context = std::exchange(current, nullptr), CUDA_SUCCESS; };
  driver.graph_destroy = [](CUgraph) {
    EXPECT_EQ(current, handle<CUcontext>(kContext));
    return ++calls.graphs_destroyed, CUDA_SUCCESS;
  };
  driver.graph_add_kernel_node = [](CUgraphNode* node, CUgraph graph, const CUgraphNode*, std::size_t, const CUDA_KERNEL_NODE_PARAMS*) {
    *node = handle<CUgraphNode>(number(graph));
    return CUDA_SUCCESS;
  };
  driver.graph_instantiate = [](CUgraphExec* executable, CUgraph graph, unsigned long long) {
    EXPECT_EQ(calls.mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    if (calls.executables_made == calls.most_executables) return CUDA_ERROR_OUT_OF_MEMORY;
    ++calls.executables_made;
    *executable = handle<CUgraphExec>(number(graph));
    return CUDA_SUCCESS;
  };
  driver.graph_exec_destroy = [](CUgraphExec) {
    EXPECT_EQ(current, handle<CUcontext>(kContext));
    return ++calls.executables_destroyed, CUDA_SUCCESS;
  };
  driver.graph_exec_kernel_node_set_params = [](CUgraphExec executable, CUgraphNode changed, const CUDA_KERNEL_NODE_PARAMS* node) {
    EXPECT_EQ(number(executable), number(changed)) << "the node of another graph";
    ++calls.sets;
    if (calls.set_fails) return CUDA_ERROR_NOT_SUPPORTED;
    calls.set = launched(node->func, node->gridDimX, node->blockDimX, node->sharedMemBytes, node->kernelParams);
    return CUDA_SUCCESS;
  };
  driver.graph_launch = [](CUgraphExec executable, CUstream stream) {
    if (calls.launch_fails) return CUDA_ERROR_OUT_OF_MEMORY;
    calls.launches.push_back("graph " + text(number(executable)) + " on " + text(number(stream)) + ": " + calls.set);
    return CUDA_SUCCESS;
  };
  driver.launch_kernel_ex = [](const CUlaunchConfig* config, CUfunction function, void** parameters, void**) {
    calls.launches.push_back("plain on " + text(number(config->hStream)) + ": " +
                             launched(function, config->gridDimX, config->blockDimX, config->sharedMemBytes, parameters) +
                             (config->numAttrs > 0 ? ", cluster" : ""));
    return CUDA_SUCCESS;
  };
  driver.stream_is_capturing = [](CUstream, CUstreamCaptureStatus* status) {
    *status = calls.capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  };
  driver.stream_get_id = [](CUstream stream, unsigned long long* id) { return *id = number(stream) + 100, CUDA_SUCCESS; };
  driver.stream_get_ctx = [](CUstream, CUcontext* context, CUgreenCtx* green) {
    *context = handle<CUcontext>(calls.elsewhere ? 1 : kContext);
    *green = handle<CUgreenCtx>(calls.green ? 1 : 0);
    return CUDA_SUCCESS;
  };
  return driver;
}

constexpr KernelLaunch kKernel{.grid = 132, .threads = 384, .shared_bytes = 1000};

class LauncherTest : public ::testing::Test {
 protected:
  void SetUp() override {
    calls = {};
    launcher_.make_graphs(kKernel);
  }

  // The launches that one launch with this value makes.
  static std::string launch(const Launcher& launcher, int value, std::uintptr_t stream, const KernelLaunch& kernel = kKernel) {
    calls.launches.clear();
    const Status status = launcher.launch(kernel, value, handle<CUstream>(stream));
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(calls.launches.size(), 1u);
    return calls.launches.empty() ? "" : calls.launches[0];
  }

  const Driver driver_ = noting_driver();
  Launcher launcher_{driver_, handle<CUcontext>(kContext)};
};

TEST_F(LauncherTest, ALaunchGoesThroughAGraphWithTheKernelAndTheParametersOfThisCall) {
  EXPECT_EQ(launch(launcher_, 10, 7), "graph 1 on 7: kernel 0 132 384 1000 with 10");
  EXPECT_EQ(launch(launcher_, 11, 7), "graph 1 on 7: kernel 0 132 384 1000 with 11");
  EXPECT_EQ(launch(launcher_, 12, 7, {handle<CUfunction>(5), 1, 1024, 0, 1}), "graph 1 on 7: kernel 5 1 1024 0 with 12");
}

TEST_F(LauncherTest, WhatIsSetAlreadyIsNotSetAgain) {
  for (const int value : {1, 1, 1, 2, 2, 1}) launch(launcher_, value, 7);
  EXPECT_EQ(calls.sets, 3);
  KernelLaunch other = kKernel;
  other.grid = 5;
  launch(launcher_, 1, 7, other);
  EXPECT_EQ(calls.sets, 4);
  EXPECT_EQ(launch(launcher_, 1, 8), "graph 2 on 8: kernel 0 132 384 1000 with 1") << "another stream's graph";
  EXPECT_EQ(calls.sets, 5);
  calls.set_fails = true;
  launch(launcher_, 3, 7);
  calls.set_fails = false;
  EXPECT_EQ(launch(launcher_, 3, 7), "graph 1 on 7: kernel 0 132 384 1000 with 3") << "after a failure it is";
}

TEST_F(LauncherTest, EachStreamHasAGraphOfItsOwnAndThoseBeyondTheLastGraphHaveNone) {
  for (int round = 0; round < 2; ++round)
    for (std::uintptr_t i = 1; i <= Launcher::kStreams; ++i)
      EXPECT_EQ(launch(launcher_, 5, 10 + i), "graph " + text(i) + " on " + text(10 + i) + ": kernel 0 132 384 1000 with 5");
  EXPECT_EQ(launch(launcher_, 5, 99), "plain on 99: kernel 0 132 384 1000 with 5");
  EXPECT_EQ(launch(launcher_, 5, 11), "graph 1 on 11: kernel 0 132 384 1000 with 5");
}

TEST_F(LauncherTest, ACapturedStreamGetsTheKernelItself) {
  launch(launcher_, 1, 7);
  calls.capturing = true;
  EXPECT_EQ(launch(launcher_, 2, 7), "plain on 7: kernel 0 132 384 1000 with 2");
  calls.capturing = false;
  EXPECT_EQ(launch(launcher_, 3, 7), "graph 1 on 7: kernel 0 132 384 1000 with 3");
}

TEST_F(LauncherTest, StreamsThatAGraphWouldNotSuitAreLaunchedOnPlainly) {
  calls.green = true;
  EXPECT_EQ(launch(launcher_, 1, 7), "plain on 7: kernel 0 132 384 1000 with 1");
  calls.green = false;
  calls.elsewhere = true;  // which the plain launch refuses
  EXPECT_EQ(launch(launcher_, 1, 7), "plain on 7: kernel 0 132 384 1000 with 1");
  calls.elsewhere = false;
  EXPECT_EQ(launch(launcher_, 1, number(CU_STREAM_PER_THREAD)), "plain on 2: kernel 0 132 384 1000 with 1");
  EXPECT_EQ(launch(launcher_, 1, 0), "graph 1 on 0: kernel 0 132 384 1000 with 1");
}

TEST_F(LauncherTest, WithoutAGraphTheKernelIsLaunchedPlainly) {
  const Launcher without(driver_, handle<CUcontext>(kContext));
  EXPECT_EQ(launch(without, 1, 7), "plain on 7: kernel 0 132 384 1000 with 1");

  Driver old = driver_;
  old.stream_get_ctx = nullptr;
  Launcher before_green_contexts(old, handle<CUcontext>(kContext));
  before_green_contexts.make_graphs(kKernel);
  EXPECT_EQ(launch(before_green_contexts, 1, 7), "plain on 7: kernel 0 132 384 1000 with 1");

  calls.set_fails = true;
  EXPECT_EQ(launch(launcher_, 1, 7), "plain on 7: kernel 0 132 384 1000 with 1");
  calls.set_fails = false;
  calls.launch_fails = true;
  EXPECT_EQ(launch(launcher_, 1, 7), "plain on 7: kernel 0 132 384 1000 with 1");
}

TEST_F(LauncherTest, AsManyGraphsServeAsTheDriverMade) {
  calls = {};
  calls.most_executables = 2;
  {
    Launcher launcher(driver_, handle<CUcontext>(kContext));
    launcher.make_graphs(kKernel);
    EXPECT_EQ(launch(launcher, 1, 7), "graph 1 on 7: kernel 0 132 384 1000 with 1");
    EXPECT_EQ(launch(launcher, 1, 8), "graph 2 on 8: kernel 0 132 384 1000 with 1");
    EXPECT_EQ(launch(launcher, 1, 9), "plain on 9: kernel 0 132 384 1000 with 1");
  }
  EXPECT_EQ(calls.graphs_destroyed, calls.graphs_made);
  EXPECT_EQ(calls.executables_destroyed, 2);
}

TEST_F(LauncherTest, ClustersAreLaunchedPlainly) {
  KernelLaunch kernel = kKernel;
  kernel.cluster = 2;
  EXPECT_EQ(launch(launcher_, 1, 7, kernel), "plain on 7: kernel 0 132 384 1000 with 1, cluster");
}

TEST_F(LauncherTest, GraphsAreMadeOnceAndNoneIsLeftBehind) {
  calls = {};
  {
    Launcher launcher(driver_, handle<CUcontext>(kContext));
    for (int i = 0; i < 3; ++i) launcher.make_graphs(kKernel);
    EXPECT_EQ(calls.mode, CU_STREAM_CAPTURE_MODE_GLOBAL) << "as it was";
  }
  EXPECT_EQ(calls.executables_made, Launcher::kStreams);
  EXPECT_EQ(calls.executables_destroyed, Launcher::kStreams);
  EXPECT_EQ(calls.graphs_destroyed, Launcher::kStreams);
}

// The second thread comes while the first is inside the driver with the graph of the stream: it does not wait, and does not touch that graph.
TEST_F(LauncherTest, TwoThreadsOnOneStreamDoNotShareItsGraph) {
  static const Launcher* shared = nullptr;
  static std::atomic<int> depth = 0;
  Driver driver = driver_;
  driver.graph_launch = [](CUgraphExec, CUstream) {
    if (depth++ == 0) std::thread([] { EXPECT_EQ(launch(*shared, 2, 7), "plain on 7: kernel 0 132 384 1000 with 2"); }).join();
    calls.launches.emplace_back("by graph");
    return CUDA_SUCCESS;
  };
  Launcher launcher(driver, handle<CUcontext>(kContext));
  launcher.make_graphs(kKernel);
  shared = &launcher;
  EXPECT_EQ(launch(launcher, 1, 7), "by graph");
  EXPECT_EQ(depth, 1);
  shared = nullptr;
}

// Each thread has a stream of its own and launches at once: no two get the same graph.
TEST_F(LauncherTest, StreamsThatComeAtOnceGetDifferentGraphs) {
  std::vector<std::string> first(Launcher::kStreams);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < first.size(); ++i)
    threads.emplace_back([&, i] {
      first[i] = launch(launcher_, 1, i + 10);
      for (int repeat = 0; repeat < 100; ++repeat) EXPECT_EQ(launch(launcher_, 1, i + 10), first[i]);
    });
  for (std::thread& thread : threads) thread.join();
  std::set<std::string> graphs;
  for (const std::string& each : first) graphs.insert(each.substr(0, each.find(" on ")));
  EXPECT_EQ(graphs.size(), first.size());
  EXPECT_FALSE(graphs.contains("plain"));
}

TEST_F(LauncherTest, AFailedLaunchIsReportedByItsCall) {
  Driver driver = driver_;
  driver.launch_kernel_ex = [](const CUlaunchConfig*, CUfunction, void**, void**) { return CUDA_ERROR_LAUNCH_FAILED; };
  Launcher launcher(driver, handle<CUcontext>(kContext));
  launcher.make_graphs(kKernel);
  calls.launch_fails = true;
  const int value = 1;
  const Status status = launcher.launch(kKernel, value, handle<CUstream>(7));
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("cuLaunchKernelEx failed: ERROR (said by the test)"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace tandem::cuda
