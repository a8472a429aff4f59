// Reading what ptxas said, in the words of NVRTC 13.
#include "jit/compile_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::jit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(CompileLog, ReadsACleanKernel) {
  const CompileReport report = read_compile_log(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'tandem_forward' for 'sm_90a'\n"
      "ptxas info    : Function properties for tandem_forward\n"
      "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 7 barriers\n"
      "ptxas info    : Compile time = 402.667 ms\n");
  EXPECT_EQ(report.registers, 168);
  EXPECT_EQ(report.spill_bytes, 0);
  EXPECT_EQ(report.stack_bytes, 0);
  EXPECT_THAT(report.advisories, ElementsAre());
  EXPECT_TRUE(report.clean());
}

TEST(CompileLog, AddsSpillStoresAndLoads) {
  const CompileReport report = read_compile_log(
      "ptxas info    : Function properties for k\n"
      "ptxas         .     264 bytes stack frame, 412 bytes spill stores, 408 bytes spill loads\n"
      "ptxas info    : Used 32 registers, used 1 barriers, 264 bytes cumulative stack size\n");
  EXPECT_EQ(report.spill_bytes, 820);
  EXPECT_EQ(report.stack_bytes, 264);
  EXPECT_EQ(report.registers, 32);
  EXPECT_FALSE(report.clean());
}

TEST(CompileLog, AddsUpTheFunctionsOfAModuleAndKeepsTheLargestFrame) {
  const CompileReport report = read_compile_log(
      "ptxas         .     32 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n"
      "ptxas info    : Used 30 registers, used 0 barriers, 32 bytes cumulative stack size\n"
      "ptxas info    : Function properties for _Z1gf\n"
      "ptxas         .     16 bytes stack frame, 1 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 24 registers, used 0 barriers\n");
  EXPECT_EQ(report.spill_bytes, 13);
  EXPECT_EQ(report.stack_bytes, 32);
  EXPECT_EQ(report.registers, 30);
}

struct Advisory {
  const char* code;
  const char* line;
};

// C7508 to C7519: one where setmaxnreg has no effect, and those where WGMMAs lose their asynchrony.
constexpr Advisory kAdvisories[] = {
    {"(C7508)", "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry."},
    {"(C7510)",
     "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to the presence of Extern calls in the function "
     "'k' in line 12"},
    {"(C7511)",
     "ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to wgmma pipeline crossing function boundary at "
     "a function call in the function 'k' in line 12"},
    {"(C7512)",
     "ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources for the "
     "wgmma pipeline in the function 'k' in line 12"},
    {"(C7513)",
     "ptxas info    : (C7513) Potential Performance Loss: wgmma.mma_async instructions are serialized due to non wgmma instructions defining input "
     "registers of a wgmma between start and end of the pipeline stage in the function 'k' in line 12"},
    {"(C7514)",
     "ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized due to non wgmma instructions reading accumulator "
     "registers of  a wgmma between start and end of the pipeline stage in the function 'k' in line 0"},
    {"(C7515)",
     "ptxas info    : (C7515) Potential Performance Loss: wgmma.mma_async instructions are serialized due to non wgmma instructions defining accumulator "
     "registers of a wgmma between start and end of the pipeline stage in the function 'k' in line 12"},
    {"(C7516)",
     "ptxas info    : (C7516) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ill formed pipeline stage in the function 'k'"},
    {"(C7517)", "ptxas info    : (C7517) wgmma.wait_group is injected in around line 54 by compiler to allow use of registers defined by GMMA in function 'k'"},
    {"(C7518)",
     "ptxas info    : (C7518) Potential Performance Loss: wgmma.mma_async instructions are serialized due to program dependence on compiler-inserted WG.DP "
     "in divergent path in the function 'k' in line 74"},
    {"(C7519)",
     "ptxas info    : (C7519) Potential Performance Loss: wgmma.mma_async instructions are serialized due to program dependence on compiler-inserted WG.AR "
     "in divergent path in the function 'k' in line 74"},
};

TEST(CompileLog, ReportsEveryAdvisoryByItsCode) {
  for (const Advisory& advisory : kAdvisories) {
    const CompileReport report = read_compile_log(std::string(advisory.line) + "\nptxas info    : Used 168 registers, used 1 barriers\n");
    ASSERT_EQ(report.advisories.size(), 1u) << advisory.code;
    EXPECT_THAT(report.advisories[0], StartsWith(advisory.code));
    EXPECT_FALSE(report.clean());
    EXPECT_EQ(report.registers, 168);
    EXPECT_EQ(report.spill_bytes, 0);
  }
}

TEST(CompileLog, KeepsAdvisoriesInTheirOrder) {
  const CompileReport report = read_compile_log(
      "ptxas info    : (C7517) wgmma.wait_group is injected in around line 79 by compiler\n"
      "ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized");
  EXPECT_THAT(report.advisories, ElementsAre(HasSubstr("C7517"), HasSubstr("C7514")));
}

TEST(CompileLog, TakesAnyText) {
  for (const char* text : {"", "\n", "\n\n", "bytes spill stores", " registers", "x bytes spill loads", "99999999999999999999 registers", "(C75"}) {
    const CompileReport report = read_compile_log(text);
    EXPECT_EQ(report.spill_bytes, 0) << text;
  }
  EXPECT_EQ(read_compile_log("Used 24 registers").registers, 24) << "without a newline at its end";
}

TEST(CompileLog, IsNotMisledByWarnings) {
  const CompileReport report = read_compile_log(
      "t.cu(1): warning #161-D: unrecognized #pragma\n  #pragma nonsense\n          ^\n\n"
      "Remark: The warnings can be suppressed with \"-diag-suppress <warning-number>\"\n\n"
      "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n");
  EXPECT_TRUE(report.clean());
}

}  // namespace
}  // namespace tandem::jit
