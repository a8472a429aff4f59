// Every field of the spec, whether or not the tuned table uses it: the same results from each schedule.
#include <gtest/gtest.h>

#include <cstdlib>

#include "backends/backend.hpp"
#include "cuda_device.hpp"
#include "support/compare.hpp"
#include "support/forward_case.hpp"
#include "support/forward_run.hpp"
#include "support/reference.hpp"

namespace tandem::testing {
namespace {

struct Schedule {
  std::int64_t head_dim, head_dim_v;
  const char* fields;
};

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
  const struct {
    std::int64_t batch, seqlen_q, seqlen_k, heads, heads_kv;
  } shapes[] = {{1, 1, 1, 1, 1}, {2, 129, 300, 4, 2}, {1, 700, 513, 6, 3}, {3, 255, 127, 2, 1}, {1, 64, 1763, 3, 3}, {3, 200, 200, 24, 8}};
  for (const bool causal : {false, true}) {
    if (causal && clustered) continue;
    for (const auto& shape : shapes)
      for (const ElementType type : {ElementType::bf16, ElementType::fp16}) {
        ForwardCase c;
        c.problem = make_problem(type, {.batch = shape.batch,
                                        .seqlen_q = shape.seqlen_q,
                                        .seqlen_k = shape.seqlen_k,
                                        .num_heads = shape.heads,
                                        .num_heads_kv = shape.heads_kv,
                                        .head_dim = schedule.head_dim,
                                        .head_dim_v = schedule.head_dim_v,
                                        .causal = causal});
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

INSTANTIATE_TEST_SUITE_P(
    hopper, HopperSchedules,
    ::testing::Values(Schedule{128, 128, "scheduler=single_tile"}, Schedule{128, 128, "scheduler=static_persistent"},
                      Schedule{128, 128, "cluster=2,scheduler=static_persistent"}, Schedule{128, 128, "cluster=2,scheduler=single_tile,turns=none"},
                      Schedule{128, 128, "q_in_registers=false,q_buffers=2,output_stage=own"}, Schedule{128, 128, "output_stage=q_buffer"},
                      Schedule{128, 128, "q_in_registers=false,output_stage=q_buffer"}, Schedule{128, 128, "output_stage=registers"},
                      Schedule{128, 128, "overlap=false,turns=exp_section"}, Schedule{128, 128, "overlap=false,turns=gemm_issue"},
                      Schedule{128, 128, "turns=exp_section"}, Schedule{128, 128, "turns=none"}, Schedule{128, 128, "lazy_rescale=false"},
                      Schedule{128, 128, "block_n=96,stages=3"}, Schedule{128, 128, "block_n=80,stages=1"}, Schedule{128, 128, "block_n=64,stages=4"},
                      Schedule{64, 64, "consumer_warpgroups=1,ctas_per_sm=2,block_n=96,turns=none,q_in_registers=true,output_stage=own"},
                      Schedule{64, 64, "consumer_warpgroups=3,ctas_per_sm=1,block_n=112,turns=exp_section,q_in_registers=false,output_stage=own"},
                      Schedule{64, 64, "consumer_warpgroups=2,ctas_per_sm=1,q_in_registers=true,block_n=192,output_stage=own"},
                      Schedule{192, 128, "cluster=2,scheduler=static_persistent"}, Schedule{256, 256, "block_n=80,output_stage=q_buffer"},
                      Schedule{256, 256, "cluster=2,scheduler=static_persistent"},
                      Schedule{80, 80, "consumer_warpgroups=2,block_n=128,cluster=2,scheduler=single_tile"}),
    name_of_schedule);

}  // namespace
}  // namespace tandem::testing
