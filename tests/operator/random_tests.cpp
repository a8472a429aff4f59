// Random problems against fp64.
#include <fmt/format.h>

#include <cstdlib>

#include "operator/operator_tests.hpp"

namespace tandem::testing {
namespace {

std::uint64_t seed_of(int index) { return 0x7a4d3u * 1000u + static_cast<std::uint64_t>(index); }

TEST_P(OperatorTest, RandomProblemsAreWithinTheToleranceRule) {
  const auto run_seed = [&](std::uint64_t seed) {
    const ForwardCase c = random_case(seed, types(), limits().max_flops);
    if (!fits(c.problem)) return;
    SCOPED_TRACE(fmt::format("to run this problem alone: TANDEM_TEST_SEED={} and --gtest_filter=*RandomProblems*", seed));
    expect_right(c);
  };
  if (const char* const seed = std::getenv("TANDEM_TEST_SEED"); seed != nullptr) {
    run_seed(std::strtoull(seed, nullptr, 10));
    return;
  }
  for (int i = 0; i < limits().random_cases && !HasFailure(); ++i) run_seed(seed_of(i));
}

}  // namespace
}  // namespace tandem::testing
