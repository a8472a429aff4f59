// Every field of the spec, whether or not the tuned table uses it: the same results from each schedule.
#include <gtest/gtest.h>

#include <cstdlib>

#include "backends/backend.hpp"
#include "cuda_device.hpp"
#include "plan/planner.hpp"
#include "schedules_tried.hpp"
#include "support/compare.hpp"
#include "support/forward_case.hpp"
#include "support/forward_run.hpp"
#include "support/reference.hpp"

namespace tandem::testing {
namespace {

// Every row is there, and `count` of them are those of the reference.
void expect_right(Backend& backend, TestDevice& device, const ForwardCase& c, std::int64_t count) {
  const ForwardInputs inputs = make_inputs(c);
  const ForwardResult ours = run_forward(backend, device, c, inputs);
  ASSERT_TRUE(ours.status.ok()) << ours.status.message();
  const std::vector<Row> rows = some_rows(c.problem, count, c.seed);
  const Values q = inputs.q.values(), k = inputs.k.values(), v = inputs.v.values();
  const auto scale = static_cast<double>(c.softmax_scale);
  ASSERT_TRUE(is_right(c, ours, reference_rows(c.problem, q, k, v, scale, rows, Arithmetic::exact),
                       reference_rows(c.problem, q, k, v, scale, rows, Arithmetic::same_dtype)));
  ASSERT_TRUE(every_row_is_defined(c, ours));
}

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
        ASSERT_NO_FATAL_FAILURE(expect_right(*backend_, *device_, c, 60));
      }
  }
}

// Causal tiles that come after all sections (plan/launch.cpp, held_back): small sections leave enough of them at lengths that the reference can follow.
class HopperTileOrder : public ::testing::Test {
 protected:
  static constexpr std::int64_t kSectionMb = 1;
  void SetUp() override { ::setenv("TANDEM_SECTION_MB", std::to_string(kSectionMb).c_str(), 1); }
  void TearDown() override { ::unsetenv("TANDEM_SECTION_MB"); }
};

TEST_F(HopperTileOrder, TilesHeldBackAreComputedToo) {
  auto backend = make_hopper_backend({});
  if (!backend.ok()) GTEST_SKIP() << backend.status().message();
  const auto device = make_cuda_device();
  for (const std::int64_t head_dim : {64, 128})
    for (const std::int64_t seqlen_k : {4096, 5000}) {
      ForwardCase c;
      c.problem = problem_of({head_dim, head_dim, ""}, {1, 4096, seqlen_k, 5, 5}, ElementType::bf16, true);
      c.softmax_scale = usual_scale(head_dim);
      const auto plan = plan_forward(c.problem, {});
      ASSERT_TRUE(plan.ok());
      ASSERT_GT(make_geometry(plan.value().spec, c.problem, DeviceShape{}.multiprocessors, kSectionMb << 20).order.held_back, 0);
      ASSERT_NO_FATAL_FAILURE(expect_right(*backend.value(), *device, c, 200));
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
