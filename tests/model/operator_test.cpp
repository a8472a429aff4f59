// The operator tests on the model backend, and what is particular to it.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "forward/backend.hpp"
#include "model/play.hpp"
#include "operator/operator_tests.hpp"
#include "plan/shipped.hpp"

namespace tandem::testing {
namespace {

OperatorTarget model_target() {
  OperatorTarget target;
  target.name = "model";
  target.make_backend = [] { return model::make_model_backend({}); };
  target.make_device = make_host_device;
  // A GPU does in a microsecond what the model does in a second.
  target.limits.max_flops = 1e7;
  target.limits.reference_flops = 1e7;
  target.limits.random_cases = 60;
  target.limits.random_masked_cases = 60;
  target.limits.repeats = 5;
  target.limits.max_tiles = 300;
  target.limits.max_untouched_bytes = std::size_t{1} << 40;
  target.limits.tanh_error = kTanhErrorOfModel;
  // What the kernels do not promise on a GPU either.
  target.limits.invisible_values_may_be_nan = false;
  target.limits.products_beyond_fp32 = false;
  target.limits.sums_beyond_fp32 = false;
  target.limits.sequences_may_overlap = false;
  return target;
}

INSTANTIATE_TEST_SUITE_P(model, OperatorTest, ::testing::Values(model_target()), name_of_target);

TEST(ModelBackend, RegistersItselfByName) {
  tandem_model_register();
  const auto backend = make_backend("model", {});
  ASSERT_TRUE(backend.ok()) << backend.status().message();
  EXPECT_EQ(backend.value()->name(), "model");
}

TEST(ModelBackend, DescribesWhatItChose) {
  const auto backend = model::make_model_backend({});
  auto executable = backend.value()->prepare_forward(make_problem(ElementType::fp16, {.seqlen_q = 100, .seqlen_k = 100, .head_dim = 128, .causal = true}));
  ASSERT_TRUE(executable.ok()) << executable.status().message();
  const auto description = nlohmann::json::parse(executable.value()->describe());
  EXPECT_EQ(description["backend"], "model");
  EXPECT_THAT(description["kernel"].get<std::string>(), ::testing::HasSubstr("fp16"));
}

TEST(ModelBackend, ServesEveryHeadDimThatTheTilesHold) {
  const auto backend = model::make_model_backend({});
  for (const std::int64_t head_dim : {8, 40, 64, 72, 128, 200, 256}) {
    const auto executable = backend.value()->prepare_forward(make_problem(ElementType::bf16, {.seqlen_q = 10, .seqlen_k = 10, .head_dim = head_dim}));
    EXPECT_TRUE(executable.ok()) << executable.status().message();
  }
}

}  // namespace
}  // namespace tandem::testing
