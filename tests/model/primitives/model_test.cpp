// The primitive tests on the model.
#include "model/primitives/primitives_tests.hpp"

namespace tandem::primitives {
namespace {

constexpr std::uint64_t kSeeds = 10;

Runner model_runner() {
  return {"model", [] { return std::string(); }, [](Kernel kernel, const Inputs& inputs) { return run_in_model(kernel, inputs, 0); }};
}

INSTANTIATE_TEST_SUITE_P(model, Primitives, ::testing::Values(model_runner()));

TEST(ModelPrimitives, EverySeedGivesTheSameBits) {
  for (int i = 0; i < static_cast<int>(Kernel::count); ++i) {
    const auto kernel = static_cast<Kernel>(i);
    const Inputs inputs = make_inputs(kernel);
    const Outputs first = run_in_model(kernel, inputs, 0);
    for (std::uint64_t seed = 1; seed < kSeeds; ++seed) {
      const Outputs other = run_in_model(kernel, inputs, seed);
      EXPECT_EQ(first.out, other.out) << name_of(kernel) << ", seed " << seed;
      EXPECT_EQ(first.stored, other.stored) << name_of(kernel) << ", seed " << seed;
    }
  }
}

}  // namespace
}  // namespace tandem::primitives
