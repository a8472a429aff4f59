// Every field of the spec, whether or not the tuned table uses it: the same results from each schedule.
#include <gtest/gtest.h>

#include <cstdlib>

#include "backends/backend.hpp"
#include "cuda_device.hpp"
#include "schedules_tried.hpp"
#include "support/compare.hpp"
#include "support/forward_case.hpp"
#include "support/forward_run.hpp"
#include "support/reference.hpp"

namespace tandem::testing {
namespace {

class HopperSchedules : public ::testing::TestWithParam<Schedule> {
 protected:
  static void TearDownTestSuite() {
    device_.reset();
    backend_.reset();
  }
  void SetUp() override {
    if (backend_ == nullptr) {
      auto backend = make_hopper_backend({});
      if (!backend.ok()) GTEST_SKIP() << backend.status().message();
      backend_ = std::move(backend).value();
      device_ = make_cuda_device();
    }
    ::setenv("TANDEM_FORWARD_SPEC", GetParam().fields, 1);
  }
  void TearDown() override { ::unsetenv("TANDEM_FORWARD_SPEC"); }

  static inline std::unique_ptr<Backend> backend_;
  static inline std::unique_ptr<TestDevice> device_;
};

TEST_P(HopperSchedules, GivesTheResultsOfTheReference) {
  const Schedule& schedule = GetParam();
  const bool clustered = std::string_view(schedule.fields).find("cluster=2") != std::string_view::npos;
  for (const bool causal : {false, true}) {
    if (causal && clustered) continue;
    for (const ScheduleShape& shape : kScheduleShapes)
      for (const ElementType type : {ElementType::bf16, ElementType::fp16}) {
        ForwardCase c;
        c.problem = problem_of(schedule, shape, type, causal);
        c.softmax_scale = usual_scale(schedule.head_dim);
        const ForwardInputs inputs = make_inputs(c);
        const ForwardResult ours = run_forward(*backend_, *device_, c, inputs);
        ASSERT_TRUE(ours.status.ok()) << ours.status.message();
        const std::vector<Row> rows = some_rows(c.problem, 60, c.seed);
        const Values q = inputs.q.values(), k = inputs.k.values(), v = inputs.v.values();
        const auto scale = static_cast<double>(c.softmax_scale);
        ASSERT_TRUE(is_right(c, ours, reference_rows(c.problem, q, k, v, scale, rows, Arithmetic::exact),
                             reference_rows(c.problem, q, k, v, scale, rows, Arithmetic::same_dtype)));
        ASSERT_TRUE(every_row_is_defined(c, ours));
      }
  }
}

std::string name_of_schedule(const ::testing::TestParamInfo<Schedule>& parameter) {
  std::string name = "d" + std::to_string(parameter.param.head_dim) + "_" + parameter.param.fields;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(hopper, HopperSchedules, ::testing::ValuesIn(kSchedulesTried), name_of_schedule);

}  // namespace
}  // namespace tandem::testing
