// How runs behave as launches: graphs, workspaces, repeats under load, tensors beyond 2^31 elements.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "attention/params.hpp"
#include "backends/backend.hpp"
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

// Stream capture, which the library itself does not use.
struct GraphApi {
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
