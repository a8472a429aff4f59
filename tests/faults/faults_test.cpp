// Each planted fault is found within kSeeds interleavings and named rightly; a clean kernel never raises one.
//
// Environment: TANDEM_MODEL_SEED=n plays that seed alone and prints the diagnosis.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "faults/planted.hpp"
#include "machine/launch.hpp"
#include "model/play.hpp"

namespace tandem::testing {
namespace {

constexpr std::uint64_t kSeeds = 200;

// Several tiles for each block, and two batch entries, so that what runs over the end of one lands in the other.
Play play_of(const PlantedFault& fault) {
  Play play(fault.spec, case_for(fault.spec, fault.seqlen_q, fault.seqlen_k, 2, 2, 1, fault.missing_columns));
  play.multiprocessors = 2;
  return play;
}

std::pair<std::uint64_t, std::uint64_t> seeds() {
  if (const auto seed = model::seed_from_environment()) return {*seed, *seed + 1};
  return {0, kSeeds};
}

class PlantedFaultTest : public ::testing::TestWithParam<PlantedFault> {};

TEST_P(PlantedFaultTest, IsFoundAndNamed) {
  const PlantedFault& fault = GetParam();
  const Play play = play_of(fault);
  const auto [first, end] = seeds();
  for (std::uint64_t seed = first; seed < end; ++seed) {
    const auto diagnosis = play.run(fault.kernel, seed);
    if (!diagnosis) continue;
    const bool named = std::any_of(fault.expected.begin(), fault.expected.end(), [&](const ExpectedDiagnosis& expected) {
      return diagnosis->fault == expected.fault && diagnosis->object.find(expected.object) != std::string::npos;
    });
    EXPECT_TRUE(named) << diagnosis->text();
    EXPECT_TRUE(diagnosis->fault == model::Fault::wrong_result || diagnosis->fault == model::Fault::unwritten_output ||
                diagnosis->where.find(".cuh:") != std::string::npos)
        << "no source line in:\n"
        << diagnosis->text();
    // The same seed finds the same.
    const auto again = play.run(fault.kernel, seed);
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(again->text(), diagnosis->text());
    fmt::print("{} seeds: {}", seed - first + 1, first + 1 == end ? diagnosis->text() : fmt::format("{} {}\n", name_of(diagnosis->fault), diagnosis->object));
    return;
  }
  FAIL() << "not found in " << end - first << " seeds";
}

class CleanKernelTest : public ::testing::TestWithParam<PlantedFault> {};

TEST_P(CleanKernelTest, RaisesNothing) {
  const Play play = play_of(GetParam());
  const auto [first, end] = seeds();
  std::atomic<std::uint64_t> next{first};
  const auto work = [&, end = end] {
    for (std::uint64_t seed = next++; seed < end; seed = next++) {
      const auto diagnosis = play.run(GetParam().kernel, seed);
      if (!diagnosis) continue;
      next = end;
      ADD_FAILURE() << diagnosis->text();
    }
  };
  std::vector<std::jthread> workers;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) workers.emplace_back(work);
}

std::vector<PlantedFault> select(bool clean) {
  std::vector<PlantedFault> all = planted_faults();
  std::erase_if(all, [&](const PlantedFault& fault) { return fault.expected.empty() != clean; });
  return all;
}

std::string name_of_param(const ::testing::TestParamInfo<PlantedFault>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Kernel, PlantedFaultTest, ::testing::ValuesIn(select(false)), name_of_param);
INSTANTIATE_TEST_SUITE_P(Kernel, CleanKernelTest, ::testing::ValuesIn(select(true)), name_of_param);

TEST(PlantedFaults, AreMoreThanTwentyFive) { EXPECT_GT(select(false).size(), 25u); }

}  // namespace

void PrintTo(const PlantedFault& fault, std::ostream* out) { *out << fault.name; }

}  // namespace tandem::testing
