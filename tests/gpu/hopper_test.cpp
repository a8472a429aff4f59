// The operator tests on the Hopper kernels.
#include "cuda_device.hpp"
#include "hopper_limits.hpp"
#include "operator/operator_tests.hpp"

namespace tandem::testing {
namespace {

OperatorTarget hopper_target() {
  OperatorTarget target = hopper_operator_target();
  target.make_backend = [] { return make_hopper_backend({}); };
  target.make_device = [] { return make_cuda_device(); };
  return target;
}

INSTANTIATE_TEST_SUITE_P(hopper, OperatorTest, ::testing::Values(hopper_target()), name_of_target);

}  // namespace
}  // namespace tandem::testing
