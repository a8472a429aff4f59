// How runs behave as launches: graphs, workspaces, repeats under load, tensors beyond 2^31 elements.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <future>
#include <numeric>
#include <optional>
#include <random>
#include <thread>

#include "attention/params.hpp"
#include "backends/backend.hpp"
#include "cuda/launcher.hpp"
#include "cuda_device.hpp"
#include "support/compare.hpp"
#include "support/forward_case.hpp"
#include "support/forward_run.hpp"
#include "support/number_format.hpp"
#include "support/reference.hpp"

namespace tandem::testing {
namespace {

class HopperLaunch : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = make_hopper_backend({});
    if (!made.ok()) GTEST_SKIP() << made.status().message();
    backend_ = std::move(made).value();
    device_ = make_cuda_device();
  }

  static ForwardCase usual_case(const ProblemShape& shape, ElementType type = ElementType::bf16) {
    ForwardCase c;
    c.problem = make_problem(type, shape);
    c.softmax_scale = usual_scale(shape.head_dim);
    return c;
  }
  static Placement contiguous_out(const ForwardCase& c) { return place(c.out_layout, out_shape(c.problem)); }

  static void expect_right(const ForwardCase& c, const ForwardInputs& inputs, const ForwardResult& ours) {
    const std::vector<Row> rows = some_rows(c.problem, 200, c.seed);
    const Values q = inputs.q.values(), k = inputs.k.values(), v = inputs.v.values();
    const auto scale = static_cast<double>(c.softmax_scale);
    EXPECT_TRUE(is_right(c, ours, reference_rows(c.problem, q, k, v, scale, rows, Arithmetic::exact),
                         reference_rows(c.problem, q, k, v, scale, rows, Arithmetic::same_dtype)));
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<TestDevice> device_;
};

// Tensors on the device and a prepared forward, with the workspace in the test's hands.
class ManualForward {
 public:
  ManualForward(Backend& backend, TestDevice& device, const ForwardCase& c, const ForwardInputs& inputs)
      : device_(device),
        case_(c),
        out_host_(c.problem.type, out_shape(c.problem), Layout::bshd),
        q_(device, inputs.q.bytes().size()),
        k_(device, inputs.k.bytes().size()),
        v_(device, inputs.v.bytes().size()),
        out_(device, out_host_.bytes().size()),
        executable_(std::move(backend.prepare_forward(c.problem)).value()),
        workspace_(device, std::max<std::size_t>(executable_->workspace_size(), 16)) {
    device.upload(q_.data(), inputs.q.bytes().data(), q_.bytes());
    device.upload(k_.data(), inputs.k.bytes().data(), k_.bytes());
    device.upload(v_.data(), inputs.v.bytes().data(), v_.bytes());
    call_.q = inputs.q.view(q_.data());
    call_.k = inputs.k.view(k_.data());
    call_.v = inputs.v.view(v_.data());
    call_.out = out_host_.view(out_.data());
    call_.softmax_scale = c.softmax_scale;
  }

  Workspace workspace() const { return {workspace_.data(), workspace_.bytes()}; }
  Status init(void* stream) const { return executable_->init_workspace(workspace(), stream); }
  Status run(void* stream) const { return executable_->run(call_, workspace(), stream); }
  // The same with another output and workspace.
  Status run(void* stream, const DeviceBuffer& out, const DeviceBuffer& workspace) const {
    ForwardCall call = call_;
    call.out = out_host_.view(out.data());
    return executable_->run(call, {workspace.data(), workspace.bytes()}, stream);
  }
  std::size_t out_bytes() const { return out_.bytes(); }
  void poison() { device_.upload(out_.data(), out_host_.bytes().data(), out_.bytes()); }
  // What the last run wrote, byte for byte.
  const std::vector<std::byte>& bytes() {
    fetched_.resize(out_.bytes());
    device_.download(fetched_.data(), out_.data(), out_.bytes());
    return fetched_;
  }
  std::vector<std::uint32_t> bits() {
    HostTensor fetched = out_host_;
    device_.download(fetched.bytes().data(), out_.data(), out_.bytes());
    return fetched.bits();
  }
  void set_inputs(const ForwardInputs& inputs) {
    device_.upload(q_.data(), inputs.q.bytes().data(), q_.bytes());
    device_.upload(k_.data(), inputs.k.bytes().data(), k_.bytes());
    device_.upload(v_.data(), inputs.v.bytes().data(), v_.bytes());
  }

 private:
  TestDevice& device_;
  ForwardCase case_;
  HostTensor out_host_;
  DeviceBuffer q_, k_, v_, out_;
  std::unique_ptr<ForwardExecutable> executable_;
  DeviceBuffer workspace_;
  ForwardCall call_;
  std::vector<std::byte> fetched_;
};

TEST_F(HopperLaunch, AWorkspaceThatNobodyInitialisedCostsNoResult) {
  const ForwardCase c = usual_case({.batch = 4, .seqlen_q = 700, .seqlen_k = 700, .num_heads = 16, .head_dim = 128, .causal = true});
  const ForwardInputs inputs = make_inputs(c);
  ManualForward forward(*backend_, *device_, c, inputs);
  ASSERT_TRUE(forward.init(device_->stream()).ok());
  ASSERT_TRUE(forward.run(device_->stream()).ok());
  const auto expected = forward.bits();
  for (const int garbage : {0x00, 0xff, 0x7a}) {
    const std::vector<unsigned char> bytes(forward.workspace().size, static_cast<unsigned char>(garbage));
    device_->upload(forward.workspace().data, bytes.data(), bytes.size());
    for (int i = 0; i < 3; ++i) {
      forward.poison();
      ASSERT_TRUE(forward.run(device_->stream()).ok());
      EXPECT_EQ(forward.bits(), expected) << "workspace filled with " << garbage << ", run " << i;
    }
  }
}

TEST_F(HopperLaunch, EveryRunLeavesTheWorkspaceReadyForTheNext) {
  for (const std::int64_t tokens : {1, 130, 2000}) {
    const ForwardCase c = usual_case({.batch = 3, .seqlen_q = tokens, .seqlen_k = tokens, .num_heads = 24, .head_dim = 64, .causal = true});
    const ForwardInputs inputs = make_inputs(c);
    ManualForward forward(*backend_, *device_, c, inputs);
    ASSERT_TRUE(forward.init(device_->stream()).ok());
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(forward.run(device_->stream()).ok());
      unsigned long long word = 0;
      device_->download(&word, forward.workspace().data, sizeof word);
      EXPECT_EQ(word, kCounterMark) << tokens << " tokens, run " << i;
    }
  }
}

// What the library itself does not use: stream capture, and work of the host in a stream.
struct GraphApi {
  decltype(&::cuLaunchHostFunc) launch_host_function;
  decltype(&::cuStreamQuery) stream_query;
  decltype(&::cuStreamBeginCapture) begin_capture;
  decltype(&::cuStreamEndCapture) end_capture;
  decltype(&::cuGraphInstantiate) instantiate;
  decltype(&::cuGraphLaunch) launch;
  decltype(&::cuGraphExecDestroy) exec_destroy;
  decltype(&::cuGraphDestroy) destroy;
};

GraphApi graph_api() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  GraphApi api{};
  const auto load = [&](auto& entry, const char* name) { entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(dlsym(library, name)); };
  load(api.launch_host_function, "cuLaunchHostFunc");
  load(api.stream_query, "cuStreamQuery");
  load(api.begin_capture, "cuStreamBeginCapture_v2");
  load(api.end_capture, "cuStreamEndCapture");
  load(api.instantiate, "cuGraphInstantiateWithFlags");
  load(api.launch, "cuGraphLaunch");
  load(api.exec_destroy, "cuGraphExecDestroy");
  load(api.destroy, "cuGraphDestroy");
  return api;
}

TEST_F(HopperLaunch, BC77_RunsAreCapturedOnTheCallersStreamAndReplayWithNewInputs) {
  const GraphApi api = graph_api();
  const CudaSession session = cuda_session();
  const cuda::ContextScope scope(*session.driver, session.context);
  const ForwardCase c = usual_case({.batch = 2, .seqlen_q = 333, .seqlen_k = 444, .num_heads = 8, .num_heads_kv = 2, .head_dim = 128, .causal = true});
  const ForwardInputs first = make_inputs(c);
  ManualForward forward(*backend_, *device_, c, first);
  const auto stream = static_cast<CUstream>(device_->stream());
  ASSERT_TRUE(forward.init(stream).ok());
  ASSERT_TRUE(forward.run(stream).ok());
  const auto first_bits = forward.bits();

  ForwardCase other_case = c;
  other_case.seed = 77;
  const ForwardInputs other = make_inputs(other_case);
  forward.set_inputs(other);
  ASSERT_TRUE(forward.run(stream).ok());
  const auto other_bits = forward.bits();
  ASSERT_NE(first_bits, other_bits);

  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  ASSERT_EQ(api.begin_capture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  ASSERT_TRUE(forward.run(stream).ok());
  ASSERT_TRUE(forward.run(stream).ok());
  ASSERT_EQ(api.end_capture(stream, &graph), CUDA_SUCCESS);
  ASSERT_EQ(api.instantiate(&executable, graph, 0), CUDA_SUCCESS);
  for (int i = 0; i < 20; ++i) {
    const bool use_first = i % 2 == 0;
    forward.set_inputs(use_first ? first : other);
    forward.poison();
    ASSERT_EQ(api.launch(executable, stream), CUDA_SUCCESS);
    EXPECT_EQ(forward.bits(), use_first ? first_bits : other_bits) << "replay " << i;
  }
  api.exec_destroy(executable);
  api.destroy(graph);
}

// Outputs enough for a run each.
class Outputs {
 public:
  Outputs(TestDevice& device, const ManualForward& forward, int count) : device_(device), workspace_(device, forward.workspace().size) {
    for (int i = 0; i < count; ++i) outs_.push_back(std::make_unique<DeviceBuffer>(device, forward.out_bytes()));  // poisoned
  }
  // Run i. Nobody initialises the workspace, which costs no result.
  Status run(const ManualForward& forward, void* stream, std::size_t i) const { return forward.run(stream, *outs_[i], workspace_); }
  int different_from(const std::vector<std::byte>& expected) const {
    int count = 0;
    for (const auto& out : outs_) {
      std::vector<std::byte> bytes(out->bytes());
      device_.download(bytes.data(), out->data(), bytes.size());
      count += bytes != expected;
    }
    return count;
  }

 private:
  TestDevice& device_;
  std::vector<std::unique_ptr<DeviceBuffer>> outs_;
  DeviceBuffer workspace_;
};

// Runs of a small problem, launched as graphs where there is one for them.
class HopperGraphLaunch : public HopperLaunch {
 protected:
  void SetUp() override {
    HopperLaunch::SetUp();
    if (IsSkipped()) return;
    const CudaSession session = cuda_session();
    driver_ = session.driver;
    scope_.emplace(*session.driver, session.context);
    const ForwardCase c = usual_case({.batch = 1, .seqlen_q = 70, .seqlen_k = 200, .num_heads = 2, .head_dim = 64, .causal = true});
    forward_ = std::make_unique<ManualForward>(*backend_, *device_, c, make_inputs(c));
    ASSERT_TRUE(forward_->run(device_->stream()).ok());
    expected_ = forward_->bytes();
  }
  void TearDown() override {
    forward_.reset();
    scope_.reset();
  }

  CUstream make_stream(unsigned flags = CU_STREAM_NON_BLOCKING) const {
    CUstream stream = nullptr;
    EXPECT_EQ(driver_->stream_create(&stream, flags), CUDA_SUCCESS);
    return stream;
  }
  Outputs outputs(int count) const { return Outputs(*device_, *forward_, count); }

  const cuda::Driver* driver_ = nullptr;
  std::optional<cuda::ContextScope> scope_;
  std::unique_ptr<ManualForward> forward_;
  std::vector<std::byte> expected_;  // what each run is to write
};

// The first of some streams is held up: no other may wait for it.
TEST_F(HopperGraphLaunch, StreamsThatShareAPlanNeverWaitForEachOther) {
  constexpr std::size_t kStreams = 6;  // of the 8 that the driver keeps apart by default
  const GraphApi api = graph_api();

  struct Lane {
    CUstream stream = nullptr;
    std::unique_ptr<Outputs> warm, outs;
  };
  std::vector<Lane> lanes(kStreams);
  for (Lane& lane : lanes) {
    lane.stream = make_stream();
    lane.warm = std::make_unique<Outputs>(*device_, *forward_, 3);
    lane.outs = std::make_unique<Outputs>(*device_, *forward_, 3);
    for (std::size_t i = 0; i < 3; ++i) ASSERT_TRUE(lane.warm->run(*forward_, lane.stream, i).ok());
    ASSERT_EQ(driver_->stream_synchronize(lane.stream), CUDA_SUCCESS);
  }

  std::promise<void> gate;
  std::future<void> opened = gate.get_future();
  ASSERT_EQ(api.launch_host_function(
                lanes[0].stream, [](void* future) { static_cast<std::future<void>*>(future)->wait(); }, &opened),
            CUDA_SUCCESS);
  for (std::size_t i = 0; i < 3; ++i)
    for (const Lane& lane : lanes) EXPECT_TRUE(lane.outs->run(*forward_, lane.stream, i).ok());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  for (std::size_t i = 1; i < kStreams; ++i) {
    while (api.stream_query(lanes[i].stream) == CUDA_ERROR_NOT_READY && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(api.stream_query(lanes[i].stream), CUDA_SUCCESS) << "stream " << i << " waits for stream 0";
  }
  EXPECT_EQ(api.stream_query(lanes[0].stream), CUDA_ERROR_NOT_READY);
  gate.set_value();
  for (const Lane& lane : lanes) {
    ASSERT_EQ(driver_->stream_synchronize(lane.stream), CUDA_SUCCESS);
    EXPECT_EQ(lane.warm->different_from(expected_), 0);
    EXPECT_EQ(lane.outs->different_from(expected_), 0);
    driver_->stream_destroy(lane.stream);
  }
}

TEST_F(HopperGraphLaunch, ThreadsGetTheirOwnResultsOnOneStreamAndOnStreamsOfTheirOwn) {
  constexpr std::size_t kThreads = 8, kRuns = 50;
  for (const bool own_streams : {false, true}) {
    std::vector<CUstream> streams(kThreads, static_cast<CUstream>(device_->stream()));
    std::vector<std::unique_ptr<Outputs>> outs;
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      if (own_streams) streams[i] = make_stream();
      outs.push_back(std::make_unique<Outputs>(*device_, *forward_, kRuns));
    }
    for (std::size_t i = 0; i < kThreads; ++i)
      threads.emplace_back([&, i] {
        for (std::size_t run = 0; run < kRuns; ++run) EXPECT_TRUE(outs[i]->run(*forward_, streams[i], run).ok());
      });
    for (std::thread& thread : threads) thread.join();
    for (std::size_t i = 0; i < kThreads; ++i) {
      ASSERT_EQ(driver_->stream_synchronize(streams[i]), CUDA_SUCCESS);
      EXPECT_EQ(outs[i]->different_from(expected_), 0) << "thread " << i << (own_streams ? " on a stream of its own" : "");
      if (own_streams) driver_->stream_destroy(streams[i]);
    }
  }
}

TEST_F(HopperGraphLaunch, DefaultStreamsAndMoreStreamsThanThereAreGraphsServeToo) {
  std::vector<CUstream> streams = {nullptr, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
  for (int i = 0; i < cuda::Launcher::kStreams + 2; ++i) {
    streams.push_back(make_stream(i % 2 == 0 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
  }
  for (const CUstream stream : streams) {
    const Outputs outs = outputs(3);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(outs.run(*forward_, stream, i).ok());
    ASSERT_EQ(driver_->stream_synchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(outs.different_from(expected_), 0);
  }
  for (std::size_t i = 3; i < streams.size(); ++i) driver_->stream_destroy(streams[i]);
}

// In the mode in which a capture forbids the most, a run on another stream, its first there, goes on beside it.
TEST_F(HopperGraphLaunch, ARunBesideTheCaptureOfAnotherStreamIsNoPartOfIt) {
  const GraphApi api = graph_api();
  const Outputs captured_outs = outputs(1), outs = outputs(2);
  const CUstream captured = make_stream(), beside = make_stream();

  ASSERT_EQ(api.begin_capture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_TRUE(captured_outs.run(*forward_, captured, 0).ok());
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(outs.run(*forward_, beside, i).ok());
  CUgraph graph = nullptr;
  ASSERT_EQ(api.end_capture(captured, &graph), CUDA_SUCCESS);
  ASSERT_EQ(driver_->stream_synchronize(beside), CUDA_SUCCESS);
  EXPECT_EQ(outs.different_from(expected_), 0);
  EXPECT_EQ(captured_outs.different_from(expected_), 1) << "a captured run has not run yet";

  CUgraphExec executable = nullptr;
  ASSERT_EQ(api.instantiate(&executable, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(api.launch(executable, captured), CUDA_SUCCESS);
  ASSERT_EQ(driver_->stream_synchronize(captured), CUDA_SUCCESS);
  EXPECT_EQ(captured_outs.different_from(expected_), 0);
  api.exec_destroy(executable);
  api.destroy(graph);
  driver_->stream_destroy(captured);
  driver_->stream_destroy(beside);
}

// One shape for each kernel of the benchmark, 1,000 runs of each while another stream keeps the memory busy.
TEST_F(HopperLaunch, BC81_AThousandRunsUnderMemoryPressureGiveTheSameBits) {
  const CudaSession session = cuda_session();
  const cuda::Driver& driver = *session.driver;
  const cuda::ContextScope scope(driver, session.context);
  constexpr std::size_t kTraffic = std::size_t{256} << 20;
  CUdeviceptr traffic = 0;
  CUstream beside = nullptr;
  ASSERT_EQ(driver.mem_alloc(&traffic, kTraffic), CUDA_SUCCESS);
  ASSERT_EQ(driver.stream_create(&beside, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  for (const std::int64_t head_dim : {64, 96, 128, 192, 256})
    for (const bool causal : {false, true}) {
      const ForwardCase c =
          usual_case({.batch = 2, .seqlen_q = 900, .seqlen_k = 1100, .num_heads = 8, .num_heads_kv = 4, .head_dim = head_dim, .causal = causal});
      const ForwardInputs inputs = make_inputs(c);
      ManualForward forward(*backend_, *device_, c, inputs);
      ASSERT_TRUE(forward.init(device_->stream()).ok());
      ASSERT_TRUE(forward.run(device_->stream()).ok());
      const std::vector<std::byte> expected = forward.bytes();
      for (int i = 0; i < 1000; ++i) {
        ASSERT_EQ(driver.memset_d8_async(traffic, static_cast<unsigned char>(i), kTraffic, beside), CUDA_SUCCESS);
        forward.poison();
        ASSERT_TRUE(forward.run(device_->stream()).ok());
        ASSERT_TRUE(forward.bytes() == expected) << "head_dim " << head_dim << " causal " << causal << " run " << i;
      }
      ASSERT_EQ(driver.stream_synchronize(beside), CUDA_SUCCESS);
    }
  driver.stream_destroy(beside);
  driver.mem_free(traffic);
}

// BC-97 as it was reported: 1,600 x 16 x 729 x 72, 2.7 GB a tensor. Tensors repeat a block of random numbers, of which rows are compared.
TEST_F(HopperLaunch, BC97_TensorsBeyondTwoToTheThirtyOneBytes) {
  constexpr std::int64_t kBatch = 1600, kTokens = 16, kHeads = 729, kDim = 72;
  constexpr std::int64_t kElements = kBatch * kTokens * kHeads * kDim;
  constexpr std::int64_t kBlock = (1 << 25) - 39;  // no multiple of any extent
  std::vector<std::uint16_t> block(kBlock);
  std::vector<float> value(kBlock);
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal;
  for (std::int64_t i = 0; i < kBlock; ++i) {
    const float x = normal(random);
    std::uint32_t word = 0;
    std::memcpy(&word, &x, sizeof word);
    block[static_cast<std::size_t>(i)] = static_cast<std::uint16_t>(word >> 16);  // towards zero: any BF16 number will do
    word &= 0xffff0000u;
    std::memcpy(&value[static_cast<std::size_t>(i)], &word, sizeof word);
  }
  const auto bytes = static_cast<std::size_t>(kElements) * 2;
  void* tensors[4];
  for (void*& tensor : tensors) {
    tensor = device_->allocate_untouched(bytes);
    if (tensor == nullptr) GTEST_SKIP() << "11 GB of device memory are not free";
  }
  // Q, K and V begin at different places of the block.
  const std::int64_t shift[3] = {0, 12'345'678, 7'654'321};
  for (int t = 0; t < 3; ++t)
    for (std::int64_t at = 0; at < kElements;) {
      const std::int64_t from = (at + shift[t]) % kBlock, count = std::min(kBlock - from, kElements - at);
      device_->upload(static_cast<std::uint16_t*>(tensors[t]) + at, block.data() + from, static_cast<std::size_t>(count) * 2);
      at += count;
    }
  ForwardCall call;
  Tensor* const views[4] = {&call.q, &call.k, &call.v, &call.out};
  for (int t = 0; t < 4; ++t) *views[t] = {tensors[t], {kBatch, kTokens, kHeads, kDim}, {kTokens * kHeads * kDim, kHeads * kDim, kDim, 1}, ElementType::bf16};
  call.softmax_scale = usual_scale(kDim);
  const ForwardProblem problem =
      make_problem(ElementType::bf16, {.batch = kBatch, .seqlen_q = kTokens, .seqlen_k = kTokens, .num_heads = kHeads, .head_dim = kDim});
  auto executable = backend_->prepare_forward(problem);
  ASSERT_TRUE(executable.ok()) << executable.status().message();
  const DeviceBuffer workspace(*device_, 16);
  ASSERT_TRUE(executable.value()->init_workspace({workspace.data(), 16}, device_->stream()).ok());
  const Status status = executable.value()->run(call, {workspace.data(), 16}, device_->stream());
  ASSERT_TRUE(status.ok()) << status.message();
  device_->synchronize();

  const auto at = [&](int tensor, std::int64_t b, std::int64_t s, std::int64_t h, std::int64_t d) {
    return static_cast<double>(value[static_cast<std::size_t>((((b * kTokens + s) * kHeads + h) * kDim + d + shift[tensor]) % kBlock)]);
  };
  std::uniform_int_distribution<std::int64_t> any_batch(0, kBatch - 1), any_token(0, kTokens - 1), any_head(0, kHeads - 1);
  for (int sample = 0; sample < 300; ++sample) {
    const std::int64_t b = sample == 0 ? kBatch - 1 : any_batch(random), i = sample == 0 ? kTokens - 1 : any_token(random),
                       h = sample == 0 ? kHeads - 1 : any_head(random);
    double weight[kTokens], total = 0;
    for (std::int64_t j = 0; j < kTokens; ++j) {
      double score = 0;
      for (std::int64_t d = 0; d < kDim; ++d) score += at(0, b, i, h, d) * at(1, b, j, h, d);
      total += weight[j] = std::exp(score * static_cast<double>(call.softmax_scale));
    }
    std::uint16_t row[kDim];
    device_->download(row, static_cast<std::uint16_t*>(tensors[3]) + ((b * kTokens + i) * kHeads + h) * kDim, sizeof row);
    for (std::int64_t d = 0; d < kDim; ++d) {
      double expected = 0;
      for (std::int64_t j = 0; j < kTokens; ++j) expected += weight[j] / total * at(2, b, j, h, d);
      const std::uint32_t word = std::uint32_t{row[d]} << 16;
      float ours = 0;
      std::memcpy(&ours, &word, sizeof ours);
      ASSERT_NEAR(static_cast<double>(ours), expected, 0.03) << "batch " << b << " query " << i << " head " << h << " column " << d;
    }
  }
  for (void* const tensor : tensors) device_->free(tensor);
}

TEST_F(HopperLaunch, LongSequencesAreRight) {
  for (const bool causal : {false, true})
    for (const std::int64_t head_dim : {64, 128, 256}) {
      const ForwardCase c = usual_case({.seqlen_q = 1000, .seqlen_k = 70'001, .num_heads = 2, .num_heads_kv = 1, .head_dim = head_dim, .causal = causal});
      const ForwardInputs inputs = make_inputs(c);
      expect_right(c, inputs, run_forward(*backend_, *device_, c, inputs));
    }
}

}  // namespace
}  // namespace tandem::testing
