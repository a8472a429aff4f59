// NVRTC itself: kernels compiled from the sources in the library, what its log says, and the policy of when to compile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "child_process.hpp"
#include "jit/kernel_store.hpp"
#include "jit/nvrtc.hpp"
#include "plan/spec_text.hpp"
#include "temporary_folder.hpp"

namespace tandem::jit {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::ChildProcess;
using ::testing::ElementsAre;
using testing::EnvironmentVariable;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::TemporaryFolder;

// Small, so that it compiles quickly.
constexpr ForwardSpec kSmall{.head_dim = 16, .head_dim_v = 16, .block_n = 16};

constexpr ForwardSpec small(int block_n) {
  ForwardSpec spec = kSmall;
  spec.block_n = block_n;
  return spec;
}

class CompilerTest : public ::testing::Test {
 protected:
  CompilerTest() : store_(KernelCache(temporary_ / "cache")) {}

  EnvironmentVariable allowed_{"TANDEM_JIT", std::nullopt}, no_packs_{"TANDEM_AOT_DIR", std::nullopt};
  TemporaryFolder temporary_;
  KernelStore store_;
};

void expect_cubin(const CompiledKernel& kernel) {
  ASSERT_GT(kernel.cubin.size(), 1'000u);
  EXPECT_EQ(kernel.cubin.substr(0, 4),
            "\x7f"
            "ELF");
  EXPECT_THAT(kernel.cubin, HasSubstr(std::string(kEntryName)));
}

TEST(Nvrtc, IsFoundAndSaysItsVersion) {
  const auto api = nvrtc();
  ASSERT_TRUE(api.ok()) << api.status().message();
  EXPECT_GE(api.value()->major, 12);
  EXPECT_TRUE(fs::exists(api.value()->path)) << api.value()->path;
  EXPECT_THAT(api.value()->version(), ::testing::MatchesRegex("[0-9]+\\.[0-9]+"));
}

TEST_F(CompilerTest, IsFoundBesideTheProgramHoweverThatWasStarted) {
  for (const char* name : {"child", "./child", "", "/no/such/place/child"}) {
    ChildProcess child({"get", temporary_ / "cache", to_text(kSmall)}, {.name = name, .folder = temporary_.path(), .environment = std::vector<std::string>{}});
    EXPECT_EQ(child.wait().status, 0) << "argv[0] is " << name;
  }
}

TEST_F(CompilerTest, CompilesAKernelOnceAndReadsItsLog) {
  std::vector<std::pair<std::string, double>> progress;
  const auto note = [&](const std::string& name, double seconds) { progress.emplace_back(name, seconds); };
  const auto compiled = store_.get(kSmall, note);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  expect_cubin(compiled.value());
  EXPECT_TRUE(compiled.value().report.clean()) << ::testing::PrintToString(compiled.value().report.advisories);
  EXPECT_EQ(compiled.value().report.registers, 168) << "the launch bound of three warpgroups";
  EXPECT_GT(compiled.value().seconds, 0);
  ASSERT_EQ(progress.size(), 2u) << "a line before and a line after";
  EXPECT_EQ(progress[0].first, name_of(kSmall));
  EXPECT_LT(progress[0].second, 0);
  EXPECT_EQ(progress[1].second, compiled.value().seconds);

  progress.clear();
  const auto found = store_.get(kSmall, note);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found.value().cubin, compiled.value().cubin);
  EXPECT_EQ(found.value().report.registers, compiled.value().report.registers);
  EXPECT_EQ(found.value().seconds, 0);
  EXPECT_THAT(progress, ElementsAre());
}

TEST_F(CompilerTest, GivesTheSameBytesEveryTime) {
  const std::string source = kernel_source(kSmall), name = name_of(kSmall);
  const auto first = compile(source, name), second = compile(source, name);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first.value().cubin, second.value().cubin);
}

TEST_F(CompilerTest, AFailureCarriesTheCompilersLog) {
  const auto failed = compile("#error this wheel is broken\n", "broken_wheel");
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.status().code(), StatusCode::compile_error);
  EXPECT_THAT(failed.status().message(),
              AllOf(HasSubstr("kernel broken_wheel did not compile"), HasSubstr("this wheel is broken"), HasSubstr("broken_wheel.cu")));
}

TEST_F(CompilerTest, ASpecThatBreaksARuleDoesNotCompile) {
  const auto failed = compile(kernel_source(small(8)), "too_narrow");
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.status().message(), HasSubstr("broken_rule"));
}

TEST_F(CompilerTest, AnUnknownPragmaIsAnError) {
  const auto failed = compile("#pragma unrol\nextern \"C\" __global__ void k() {}\n", "pragma");
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.status().message(), HasSubstr("unrecognized #pragma"));
}

TEST_F(CompilerTest, SuccessThatIsNoneIsSeenInTheReport) {
  // NVRTC calls these successes: setmaxnreg without a launch bound, registers that spill, a wait that the compiler puts in.
  const std::map<std::string, std::string> faults = {
      {"(C7508)", R"(extern "C" __global__ void k(float* o) { asm volatile("setmaxnreg.inc.sync.aligned.u32 240;"); o[threadIdx.x] = 1; })"},
      {"spill", R"(extern "C" __global__ void __launch_bounds__(1024, 2) k(float* o) {
        float x[128];
        for (int i = 0; i < 128; ++i) x[i] = o[i * threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) o[i + threadIdx.x * 63] = x[i] * x[127 - i];
      })"},
      {"(C7517)", R"(extern "C" __global__ void __launch_bounds__(128) k(float* o, unsigned long long a) {
        float d[4] = {0, 0, 0, 0};
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %4, 1, 1, 1, 0, 0;"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        o[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      })"},
  };
  for (const auto& [fault, source] : faults) {
    const auto compiled = compile(source, "faulty");
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    const CompileReport& report = compiled.value().report;
    EXPECT_FALSE(report.clean()) << fault;
    if (fault == "spill")
      EXPECT_GT(report.spill_bytes, 0);
    else
      EXPECT_THAT(report.advisories, ::testing::Contains(StartsWith(fault)));
  }
}

TEST_F(CompilerTest, AFolderThatCannotBeWrittenStillGivesTheKernel) {
  testing::write_file(temporary_ / "a file", "");
  const auto compiled = KernelStore(KernelCache(temporary_ / "a file" / "cache")).get(kSmall);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  expect_cubin(compiled.value());
}

// -------------------------------------------------------------------------------------------------------------------------- concurrency

TEST_F(CompilerTest, ThreadsCompileSideBySide) {
  std::atomic<int> compiled{0};
  const auto count = [&](const std::string&, double seconds) { compiled += seconds > 0; };
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i)
    threads.emplace_back([&, i] {
      const auto kernel = store_.get(small(16 + 16 * (i % 3)), count);
      ASSERT_TRUE(kernel.ok()) << kernel.status().message();
      expect_cubin(kernel.value());
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiled, 3) << "three specs, each asked for twice";
}

TEST_F(CompilerTest, ProcessesShareOneCompilation) {
  std::vector<ChildProcess> children;
  for (int i = 0; i < 4; ++i) children.emplace_back(std::vector<std::string>{"get", temporary_ / "cache", to_text(kSmall)});
  std::multiset<std::string> outcomes;
  for (ChildProcess& child : children) outcomes.insert(child.wait().output);
  EXPECT_EQ(outcomes, (std::multiset<std::string>{"compiled", "found", "found", "found"}));
}

// ------------------------------------------------------------------------------------------------------------------------ TANDEM_JIT=off

TEST_F(CompilerTest, SwitchedOffItSaysWhatIsMissingAndHowToBuildIt) {
  const EnvironmentVariable off("TANDEM_JIT", "off");
  const auto refused = store_.get(kSmall);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::compile_error);
  const std::string& message = refused.status().message();
  EXPECT_THAT(message, AllOf(HasSubstr(name_of(kSmall)), HasSubstr("TANDEM_JIT is off"), HasSubstr("tandem compile --spec ")));
  const auto named = parse_spec(message.substr(message.find("--spec ") + 7), ForwardSpec{});
  ASSERT_TRUE(named.ok()) << named.status().message();
  EXPECT_EQ(named.value(), kSmall) << "the command builds the very kernel";
}

TEST_F(CompilerTest, SwitchedOffItStillFindsWhatIsThere) {
  ASSERT_TRUE(store_.get(kSmall).ok());
  const EnvironmentVariable off("TANDEM_JIT", "off");
  EXPECT_TRUE(store_.get(kSmall).ok());
  EXPECT_FALSE(store_.get(small(32)).ok());
}

// ------------------------------------------------------------------------------------------------------------------------- without NVRTC

TEST_F(CompilerTest, WithoutACompilerPacksServeAndTheRestIsRefusedWithThePlacesTried) {
  // A copy of the child far from the build folder's virtual environment, in an empty environment.
  fs::copy_file(TANDEM_JIT_CHILD, temporary_ / "child");
  const auto get = [&](const ForwardSpec& spec, std::vector<std::string> environment) {
    ChildProcess child({"get", temporary_ / "elsewhere", to_text(spec)}, {.program = temporary_ / "child", .environment = std::move(environment)});
    return child.wait();
  };
  const auto refused = get(kSmall, {});
  if (refused.status == 0) GTEST_SKIP() << "the system has an NVRTC of its own";
  EXPECT_THAT(refused.output, AllOf(HasSubstr("NVRTC"), HasSubstr("TANDEM_NVRTC"), HasSubstr("libnvrtc.so.13")));

  ASSERT_TRUE(store_.get(kSmall).ok());
  ASSERT_TRUE(store_.cache().label_pack(nvrtc().value()->version()));
  const std::string pack = "TANDEM_AOT_DIR=" + store_.cache().folder().string();
  EXPECT_EQ(get(kSmall, {pack}).output, "found");
  EXPECT_THAT(get(small(32), {pack}).output, HasSubstr("NVRTC"));
  EXPECT_THAT(get(small(32), {pack, "TANDEM_JIT=off"}).output, HasSubstr("tandem compile --spec"));
  EXPECT_EQ(get(small(32), {"TANDEM_NVRTC=" + nvrtc().value()->path}).output, "compiled");
}

}  // namespace
}  // namespace tandem::jit
