// The operator tests on the CPU backend, and what is particular to it.
#include <gmock/gmock.h>

#include <hwy/targets.h>
#include <cmath>

#include <nlohmann/json.hpp>
#include <thread>

#include "operator/operator_tests.hpp"

namespace tandem::testing {
namespace {

OperatorTarget cpu_target() {
  OperatorTarget target;
  target.name = "cpu";
  target.make_backend = [] { return make_cpu_backend({}); };
  target.make_device = make_host_device;
  target.limits.types = {ElementType::fp16, ElementType::bf16, ElementType::fp32};
  target.limits.repeats = 20;
  target.limits.max_untouched_bytes = std::size_t{1} << 40;
  target.limits.must_be_served = [](const ForwardCase&) { return true; };
  return target;
}

INSTANTIATE_TEST_SUITE_P(cpu, OperatorTest, ::testing::Values(cpu_target()), name_of_target);

constexpr ElementType kTypes[] = {ElementType::fp16, ElementType::bf16, ElementType::fp32};

std::unique_ptr<Backend> backend_with(int threads) {
  BackendOptions options;
  options.threads = threads;
  auto backend = make_cpu_backend(options);
  EXPECT_TRUE(backend.ok());
  return std::move(backend).value();
}

// Enough rows and heads that work is cut differently for different numbers of threads.
ForwardCase shared_case(ElementType type) {
  ForwardCase c;
  c.problem = make_problem(type, {.batch = 2, .seqlen_q = 300, .seqlen_k = 401, .num_heads = 6, .num_heads_kv = 2, .head_dim = 72, .causal = true});
  c.softmax_scale = usual_scale(72);
  return c;
}

TEST(CpuBackend, TheNumberOfThreadsChangesNoBit) {
  const auto device = make_host_device();
  for (const ElementType type : kTypes) {
    const ForwardCase c = shared_case(type);
    const ForwardInputs inputs = make_inputs(c);
    const ForwardResult one = run_forward(*backend_with(1), *device, c, inputs);
    for (const int threads : {2, 3, 16}) EXPECT_TRUE(same_bits(c, one, run_forward(*backend_with(threads), *device, c, inputs))) << threads;
  }
}

TEST(CpuBackend, ThreadsThatShareAnExecutableDoNotDisturbEachOther) {
  const auto device = make_host_device();
  const ForwardCase c = shared_case(ElementType::bf16);
  const auto backend = backend_with(3);
  auto executable = backend->prepare_forward(c.problem);
  ASSERT_TRUE(executable.ok());
  std::vector<std::jthread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      ForwardCase mine = c;
      mine.seed = t;
      const ForwardInputs inputs = make_inputs(mine);
      const ForwardResult expected = run_forward(*backend_with(1), *device, mine, inputs);
      HostTensor q = inputs.q, k = inputs.k, v = inputs.v;
      for (int i = 0; i < 5; ++i) {
        HostTensor out(c.problem.type, out_shape(c.problem), Layout::bshd);
        ForwardCall call;
        call.q = q.view(q.bytes().data());
        call.k = k.view(k.bytes().data());
        call.v = v.view(v.bytes().data());
        call.out = out.view(out.bytes().data());
        call.softmax_scale = mine.softmax_scale;
        EXPECT_TRUE(executable.value()->run(call, {}, nullptr).ok());
        EXPECT_EQ(out.bits(), expected.bits);
      }
    });
  }
}

TEST(CpuBackend, AnExecutableOutlivesItsBackend) {
  const ForwardCase c = shared_case(ElementType::fp32);
  auto backend = backend_with(2);
  auto executable = backend->prepare_forward(c.problem);
  ASSERT_TRUE(executable.ok());
  backend.reset();
  const ForwardInputs inputs = make_inputs(c);
  HostTensor q = inputs.q, k = inputs.k, v = inputs.v, out(c.problem.type, out_shape(c.problem), Layout::bshd);
  ForwardCall call;
  call.q = q.view(q.bytes().data());
  call.k = k.view(k.bytes().data());
  call.v = v.view(v.bytes().data());
  call.out = out.view(out.bytes().data());
  EXPECT_TRUE(executable.value()->run(call, {}, nullptr).ok());
  EXPECT_FALSE(std::isnan(out.values().data.front()));
}

// The machine's best instruction set is what all other tests run on; here the rest that were compiled and that it can run.
TEST(CpuBackend, EveryInstructionSetIsRight) {
  const auto device = make_host_device();
  const std::vector<std::int64_t> sets = hwy::SupportedAndGeneratedTargets();
  std::vector<std::string> seen;  // a set that was not compiled falls back to a lower one
  for (const std::int64_t set : sets) {
    hwy::SetSupportedTargetsForTest(set);
    const auto backend = backend_with(2);
    for (int i = 0; i < 40; ++i) {
      const ForwardCase c = random_case(static_cast<std::uint64_t>(i), kTypes, 2e7);
      const ForwardInputs inputs = make_inputs(c);
      const ForwardResult result = run_forward(*backend, *device, c, inputs);
      ASSERT_TRUE(result.status.ok()) << result.status.message();
      const std::vector<Row> rows = some_rows(c.problem, 200, 1);
      const auto reference = [&](Arithmetic arithmetic) {
        return reference_rows(c.problem, inputs.q.values(), inputs.k.values(), inputs.v.values(), static_cast<double>(c.softmax_scale), rows, arithmetic);
      };
      EXPECT_TRUE(is_right(c, result, reference(Arithmetic::exact), reference(Arithmetic::same_dtype))) << hwy::TargetName(set);
      EXPECT_TRUE(every_row_is_defined(c, result)) << hwy::TargetName(set);
      if (i == 0) seen.push_back(nlohmann::json::parse(result.plan)["target"]);
    }
    // NaN and infinities take ways of their own through the conversions.
    ForwardCase c;
    c.problem = make_problem(ElementType::fp16, {.seqlen_q = 3, .seqlen_k = 5, .head_dim = 40});
    ForwardInputs inputs = make_inputs(c);
    Values v = inputs.v.values();
    v.at(0, 1, 0, 3) = std::numeric_limits<float>::quiet_NaN();
    v.at(0, 2, 0, 9) = std::numeric_limits<float>::infinity();
    inputs.v.set(v);
    const ForwardResult result = run_forward(*backend, *device, c, inputs);
    EXPECT_TRUE(std::isnan(result.out.at(0, 0, 0, 3))) << hwy::TargetName(set);
    EXPECT_TRUE(std::isinf(result.out.at(0, 0, 0, 9))) << hwy::TargetName(set);
    EXPECT_TRUE(std::isfinite(result.out.at(0, 0, 0, 4))) << hwy::TargetName(set);
  }
  hwy::SetSupportedTargetsForTest(0);
  RecordProperty("instruction_sets", ::testing::PrintToString(seen));
}

TEST(CpuBackend, DescribesWhatItChose) {
  const auto backend = backend_with(2);
  auto executable = backend->prepare_forward(shared_case(ElementType::bf16).problem);
  ASSERT_TRUE(executable.ok());
  const nlohmann::json description = nlohmann::json::parse(executable.value()->describe());
  EXPECT_EQ(description["backend"], "cpu");
  EXPECT_EQ(description["threads"], 2);
  EXPECT_TRUE(description["target"].is_string());
}

TEST(CpuBackend, ScratchDoesNotGrowWithTheLengths) {
  const auto backend = backend_with(1);
  const auto scratch = [&](std::int64_t length) {
    auto executable = backend->prepare_forward(make_problem(ElementType::bf16, {.seqlen_q = length, .seqlen_k = length, .head_dim = 128}));
    EXPECT_EQ(executable.value()->workspace_size(), 0u);
    return nlohmann::json::parse(executable.value()->describe())["scratch_bytes_per_thread"].get<std::int64_t>();
  };
  EXPECT_EQ(scratch(10'000), scratch(4'000'000'000));
  EXPECT_LT(scratch(10'000), 1 << 20);
}

TEST(CpuBackend, RefusesANegativeNumberOfThreads) {
  BackendOptions options;
  options.threads = -1;
  const auto backend = make_cpu_backend(options);
  ASSERT_FALSE(backend.ok());
  EXPECT_EQ(backend.status().code(), StatusCode::invalid_argument);
  EXPECT_THAT(backend.status().message(), ::testing::HasSubstr("threads is -1"));
}

}  // namespace
}  // namespace tandem::testing
