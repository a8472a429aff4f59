// The primitive kernels compile for the device, where there is a compiler.
#include <gtest/gtest.h>

#include "jit/compiler.hpp"
#include "model/primitives/primitives_source.hpp"

namespace tandem::primitives {
namespace {

// Four widths: all of them take half a minute, and differ in a number.
TEST(PrimitiveKernels, CompileForTheDevice) {
  const auto compiled = jit::compile("#define TANDEM_PRIMITIVES_STEP_N 80\n" + std::string(kPrimitivesSource), "primitives");
  if (!compiled.ok() && compiled.status().code() == StatusCode::unavailable) GTEST_SKIP() << compiled.status().message();
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
}

}  // namespace
}  // namespace tandem::primitives
