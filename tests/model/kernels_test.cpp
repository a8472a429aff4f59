// Every shipped kernel in the model: shapes on both sides of every tile edge, many interleavings, no fault and the right numbers.
//
// Environment: TANDEM_MODEL_SEED=n plays that seed alone; TANDEM_MODEL_RUNS=n plays about n runs instead of kRuns.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "forward/shipped_images.hpp"
#include "machine/launch.hpp"
#include "model/play.hpp"

namespace tandem::testing {
namespace {

constexpr int kRuns = 1200;

struct Shape {
  std::int64_t seqlen_q, seqlen_k, batch, num_heads, num_heads_kv;
};

// Lengths 0, 1, 11, 99, 127, 128, 129 and 255 on either side, with several tiles for a block where that is not too slow.
constexpr Shape kShapes[] = {
    {1, 1, 2, 3, 1},     {11, 99, 1, 2, 1},   {99, 11, 1, 2, 2},   {127, 128, 1, 1, 1}, {128, 127, 1, 2, 1}, {129, 129, 1, 2, 2},
    {255, 255, 1, 1, 1}, {1, 255, 1, 4, 2},   {255, 1, 1, 2, 1},   {129, 0, 1, 2, 1},   {0, 129, 1, 2, 1},   {99, 128, 2, 2, 1},
    {128, 129, 1, 1, 1}, {127, 255, 1, 2, 1}, {255, 127, 1, 1, 1}, {11, 129, 3, 1, 1},
};

int wanted_runs() {
  const char* text = std::getenv("TANDEM_MODEL_RUNS");
  return text == nullptr ? kRuns : std::atoi(text);
}

// One kernel on one shape, for some seeds.
struct Job {
  std::size_t kernel;
  Shape shape;
  int missing_columns;  // of the tensors, which tiles may be 8 wider than
  std::uint64_t first_seed, seeds;
};

std::vector<Job> make_jobs() {
  const std::uint64_t pairs = model::kPlayedCount * std::size(kShapes);
  const std::uint64_t seeds = (static_cast<std::uint64_t>(wanted_runs()) + pairs - 1) / pairs;
  std::vector<Job> jobs;
  for (std::size_t kernel = 0; kernel < model::kPlayedCount; ++kernel)
    for (std::size_t i = 0; i < std::size(kShapes); ++i) {
      const std::uint64_t first = (kernel * std::size(kShapes) + i) * seeds;  // no seed twice: each is another way to play
      const int missing_columns = (kernel + i) % 4 == 0 ? 8 : 0;
      if (const auto seed = model::seed_from_environment())
        jobs.push_back({kernel, kShapes[i], missing_columns, *seed, 1});
      else
        jobs.push_back({kernel, kShapes[i], missing_columns, first, seeds});
    }
  return jobs;
}

TEST(ShippedKernels, AreRightUnderEveryInterleaving) {
  const std::vector<Job> jobs = make_jobs();
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  model::Statistics statistics;
  std::uint64_t runs = 0;
  int failures = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < jobs.size() && failures < 5; i = next++) {
      const Job& job = jobs[i];
      const ForwardSpec spec = model::played_forward(job.kernel);
      const Shape& s = job.shape;
      Play play(spec, case_for(spec, s.seqlen_q, s.seqlen_k, s.batch, s.num_heads, s.num_heads_kv, job.missing_columns));
      for (std::uint64_t seed = job.first_seed; seed < job.first_seed + job.seeds; ++seed) {
        play.multiprocessors = 1 + static_cast<int>(seed % 3);
        model::Statistics mine;
        const auto diagnosis = play.run(model::played_image(job.kernel), seed, &mine);
        const std::lock_guard lock(mutex);
        statistics += mine;
        ++runs;
        if (!diagnosis) continue;
        ++failures;
        ADD_FAILURE() << diagnosis->text() << "  case " << describe(play.forward_case()) << ", " << play.multiprocessors << " multiprocessors";
        break;
      }
    }
  };
  {
    std::vector<std::jthread> workers;
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) workers.emplace_back(work);
  }
  fmt::print("{} runs of {} kernels: {} switches, {} loads, {} stores, {} WGMMAs of a warp, {} of {} wavefronts in excess\n", runs, model::kPlayedCount,
             statistics.switches, statistics.loads, statistics.stores, statistics.wgmmas, statistics.extra_wavefronts, statistics.wavefronts);
  if (!model::seed_from_environment()) {
    EXPECT_GE(runs, std::min<std::uint64_t>(1000, static_cast<std::uint64_t>(wanted_runs())));
  }
  EXPECT_EQ(statistics.extra_wavefronts, 0u);
}

}  // namespace
}  // namespace tandem::testing
