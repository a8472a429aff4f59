// The operator tests on the Hopper kernels.
#include "cuda_device.hpp"
#include "operator/operator_tests.hpp"

namespace tandem::testing {
namespace {

OperatorTarget hopper_target() {
  OperatorTarget target;
  target.name = "hopper";
  target.make_backend = [] { return make_hopper_backend({}); };
  target.make_device = [] { return make_cuda_device(); };
  target.limits.max_flops = 4e9;
  target.limits.random_cases = 600;
  target.limits.random_masked_cases = 1000;
  target.limits.repeats = 100;
  target.limits.max_untouched_bytes = std::size_t{60} << 30;
  // Within a tile P = 0 still multiplies V, as in O = P V; and scores and sums are FP32: docs/ARCHITECTURE.md, "Where the kernels differ".
  target.limits.invisible_values_may_be_nan = false;
  target.limits.products_beyond_fp32 = false;
  target.limits.sums_beyond_fp32 = false;
  target.limits.tanh_error = 0x1p-10;  // tanh.approx.f32: 2^-10.987
  return target;
}

INSTANTIATE_TEST_SUITE_P(hopper, OperatorTest, ::testing::Values(hopper_target()), name_of_target);

}  // namespace
}  // namespace tandem::testing
