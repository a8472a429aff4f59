// Writes the specs of all kernels that the GPU suite and the benchmark will ask for, one a line: so that `make gpu-pack` compiles them where
// there is no GPU, and not on a rented one. No GPU is needed: the operator tests run on the CPU backend, and what the planner of the Hopper
// kernels says of each of their problems is noted.
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <mutex>
#include <set>
#include <string>

#include "hopper_limits.hpp"
#include "operator/operator_tests.hpp"
#include "plan/planner.hpp"
#include "plan/shipped.hpp"
#include "plan/spec_text.hpp"
#include "schedules_tried.hpp"

namespace tandem::testing {
namespace {

class KernelList {
 public:
  void note(const ForwardProblem& problem, std::string_view fields = {}) {
    const auto plan = plan_forward(problem, {}, fields);
    if (plan.ok()) note(plan.value().spec);
  }
  void note(const ForwardSpec& spec) {
    const std::lock_guard lock(mutex_);
    texts_.insert(to_text(spec));
  }
  bool write(const char* path) const {
    std::ofstream file(path);
    for (const std::string& text : texts_) file << text << '\n';
    file << "prepare_ragged\n";
    return static_cast<bool>(file.flush());
  }

 private:
  std::mutex mutex_;
  std::set<std::string> texts_;
};

KernelList& kernels() {
  static KernelList list;
  return list;
}

// Serves what the Hopper backend serves, and notes the kernel.
class NotingBackend final : public Backend {
 public:
  explicit NotingBackend(std::unique_ptr<Backend> cpu) : cpu_(std::move(cpu)) {}

  std::string_view name() const override { return "hopper"; }
  Status supports(const ForwardProblem& problem, const ForwardCall& call) const override {
    std::string reason = unsupported_reason(problem);
    if (!reason.empty()) return {StatusCode::unsupported, std::move(reason)};
    return cpu_->supports(problem, call);
  }
  Result<std::unique_ptr<ForwardExecutable>> prepare_forward(const ForwardProblem& problem) override {
    kernels().note(problem);
    return cpu_->prepare_forward(problem);
  }

 private:
  std::unique_ptr<Backend> cpu_;
};

OperatorTarget noting_target() {
  OperatorTarget target = hopper_operator_target();
  target.make_backend = []() -> Result<std::unique_ptr<Backend>> {
    auto cpu = make_cpu_backend({});
    if (!cpu.ok()) return cpu.status();
    return std::unique_ptr<Backend>(std::make_unique<NotingBackend>(std::move(cpu).value()));
  };
  target.make_device = make_host_device;
  target.limits.reference_flops = 1e5;  // right or wrong does not matter here
  target.limits.repeats = 2;
  return target;
}

INSTANTIATE_TEST_SUITE_P(noting, OperatorTest, ::testing::Values(noting_target()), name_of_target);

void note_schedules() {
  for (const Schedule& schedule : kSchedulesTried)
    for (const ScheduleShape& shape : kScheduleShapes)
      for (const bool causal : {false, true})
        for (const ElementType type : {ElementType::bf16, ElementType::fp16}) kernels().note(problem_of(schedule, shape, type, causal), schedule.fields);
}

// The grids of bench/bench.py.
void note_benchmark() {
  for (std::int64_t head_dim = 64; head_dim <= 256; head_dim += 8)
    for (const bool causal : {false, true})
      for (std::int64_t length = 512; length <= 16384; length *= 2) {
        ForwardProblem problem = make_problem(
            ElementType::bf16,
            {.batch = 16384 / length, .seqlen_q = length, .seqlen_k = length, .num_heads = 2048 / head_dim, .head_dim = head_dim, .causal = causal});
        kernels().note(problem);
        if (head_dim == 192) problem.head_dim_v = 128;
        if (head_dim == 128 && causal) {
          problem.softcap = true;
          kernels().note(problem);
          problem.softcap = false;
          problem.batch_invariant = true;
          kernels().note(problem);
          problem.batch_invariant = false;
          problem.window_left = 1024;
          kernels().note(problem);
          problem.window_left = -1;
          problem.packed_q = problem.packed_k = true;
        }
        kernels().note(problem);
      }
  kernels().note(make_problem(ElementType::bf16, {.seqlen_q = 2048, .seqlen_k = 2048, .num_heads = 8, .head_dim = 128, .causal = true}));
}

}  // namespace
}  // namespace tandem::testing

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: {} FILE\n", argv[0]);
    return 2;
  }
  const char* const path = argv[1];
  ::testing::InitGoogleTest();
  GTEST_FLAG_SET(brief, true);
  if (RUN_ALL_TESTS() != 0) fmt::print("these tests run on the CPU backend here; what they say of it is not the question\n");
  tandem::testing::note_schedules();
  tandem::testing::note_benchmark();
  for (std::size_t i = 0; i < tandem::kShippedCount; ++i) tandem::testing::kernels().note(tandem::shipped_forward(i));
  return tandem::testing::kernels().write(path) ? 0 : 1;
}
