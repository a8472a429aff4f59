// Random problems against fp64.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "operator/operator_tests.hpp"

namespace tandem::testing {
namespace {

std::uint64_t seed_of(int index) { return 0x7a4d3u * 1000u + static_cast<std::uint64_t>(index); }

// Which part of the seeds a process takes, so that several share the work: TANDEM_TEST_SHARD=2/8 is the third of eight.
struct Shard {
  int index = 0, count = 1;
};

Shard shard() {
  Shard shard;
  const char* const text = std::getenv("TANDEM_TEST_SHARD");
  if (text != nullptr && std::sscanf(text, "%d/%d", &shard.index, &shard.count) != 2)
    ADD_FAILURE() << "TANDEM_TEST_SHARD is " << text << "; it must be like 2/8";
  return shard;
}

// The seeds to run: that of the environment alone, or `count` of them until one fails. In a shard each is announced: if a run is ended from
// outside, the last one says which problem it was in.
template <class RunSeed>
void run_seeds(int count, const RunSeed& run_seed) {
  if (const char* const seed = std::getenv("TANDEM_TEST_SEED"); seed != nullptr) {
    run_seed(std::strtoull(seed, nullptr, 10));
    return;
  }
  const Shard own = shard();
  for (int i = own.index; i < count && !::testing::Test::HasFailure(); i += own.count) {
    if (own.count > 1) fmt::print(stderr, "[ seed     ] {}\n", seed_of(i));
    run_seed(seed_of(i));
  }
}

TEST_P(OperatorTest, RandomProblemsAreWithinTheToleranceRule) {
  run_seeds(limits().random_cases, [&](std::uint64_t seed) {
    const ForwardCase c = random_case(seed, types(), limits().max_flops);
    if (!fits(c.problem)) return;
    SCOPED_TRACE(fmt::format("to run this problem alone: TANDEM_TEST_SEED={} and --gtest_filter=*RandomProblems*", seed));
    expect_right(c);
  });
}

TEST_P(OperatorTest, RandomMasksAndRaggedBatchesAreWithinTheToleranceRule) {
  run_seeds(limits().random_masked_cases, [&](std::uint64_t seed) {
    const ForwardCase c = random_masked_case(seed, types(), limits().max_flops);
    if (tiles_of(c.problem) > limits().max_tiles) return;
    SCOPED_TRACE(fmt::format("to run this problem alone: TANDEM_TEST_SEED={} and --gtest_filter=*RandomMasks*", seed));
    expect_right(c);
  });
}

}  // namespace
}  // namespace tandem::testing
