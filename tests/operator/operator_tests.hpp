// The operator tests: what every backend has to do, in bodies that know no backend.
//
// An executable links the object library tandem_operator_tests and says what to run them on:
//
//   INSTANTIATE_TEST_SUITE_P(cpu, OperatorTest, ::testing::Values(OperatorTarget{...}), name_of_target);
//
// Environment: TANDEM_TEST_SEED=n runs that random problem alone.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "support/compare.hpp"
#include "support/device.hpp"
#include "support/forward_case.hpp"
#include "support/forward_run.hpp"

namespace tandem::testing {

// What a backend under test can be asked in reasonable time, and where it falls short of the contract.
struct Limits {
  double max_flops = 2e9;        // of one case; the bodies choose the largest of their configurations that fits
  double reference_flops = 4e7;  // of one case: how many rows are compared
  int random_cases = 300;
  int random_masked_cases = 300;        // with masks and ragged batches
  int repeats = 100;                    // for "the same bits every time"
  std::int64_t max_tiles = 1 << 20;     // batch * heads * ceil(seqlen_q / 64) of one case
  std::size_t max_untouched_bytes = 0;  // address space for tensors with huge strides; 0: such tests are skipped
  std::vector<ElementType> types = {ElementType::fp16, ElementType::bf16};

  // Whether refusing is a failure. Default: 16-bit types, aligned layouts, head_dim a multiple of 8 up to 256, head_dim_v one
  // up to 512.
  std::function<bool(const ForwardCase&)> must_be_served;

  // Deviations. Each skips its tests with a sentence; true is what the contract asks for.
  bool invisible_values_may_be_nan = true;  // NaN in a row of V reaches only the rows that see it, within a tile too
  bool products_beyond_fp32 = true;         // finite results where q . k overflows fp32 before the scale is applied
  bool sums_beyond_fp32 = true;             // finite results where the sum of V over the keys overflows fp32
  // Lengths that contradict each other may give a row to two sequences. Whose it becomes is nobody's business, but the model takes two
  // writers of one place for a fault.
  bool sequences_may_overlap = true;
  double tanh_error = 0.0;  // relative, of the tanh that caps scores; the LSE may be off by as much
};

struct OperatorTarget {
  std::string name;
  std::function<Result<std::unique_ptr<Backend>>()> make_backend;
  std::function<std::unique_ptr<TestDevice>()> make_device;
  Limits limits;
};

inline std::string name_of_target(const ::testing::TestParamInfo<OperatorTarget>& info) { return info.param.name; }
void PrintTo(const OperatorTarget& target, std::ostream* out);

class OperatorTest : public ::testing::TestWithParam<OperatorTarget> {
 protected:
  // Skips where the backend is not available on this machine.
  void SetUp() override;
  // Records the number of cases run and refused; skips a test of which every case was refused.
  void TearDown() override;

  Backend& backend() { return *session_->backend; }
  TestDevice& device() { return *session_->device; }
  const Limits& limits() const { return GetParam().limits; }
  const std::vector<ElementType>& types() const { return limits().types; }

  // batch * heads * ceil(seqlen_q / 64)
  static std::int64_t tiles_of(const ForwardProblem& problem);
  bool fits(const ForwardProblem& problem) const;
  // The first that fits, else the last: tests name the configuration that was reported first and a small one of its kind last.
  ForwardProblem largest_that_fits(ElementType type, std::initializer_list<ProblemShape> shapes) const;

  // A case with the usual scale.
  static ForwardCase usual(const ForwardProblem& problem);

  // Runs a case. Returns nothing where it was refused, which is a failure unless the refusal is `unsupported`, gives a reason, and the case
  // need not be served.
  std::unique_ptr<ForwardResult> run(const ForwardCase& c, const ForwardInputs& inputs);
  std::unique_ptr<ForwardResult> run(const ForwardCase& c, const ForwardInputs& inputs, const Placement& out);
  // Notes the refusal of a prepared case and judges it; false: not refused.
  bool refused(const ForwardCase& c, const Status& status, bool was_refused);

  // Runs a case and compares it with the references; the result, where it was not refused.
  std::unique_ptr<ForwardResult> expect_right(const ForwardCase& c);
  std::unique_ptr<ForwardResult> expect_right(const ForwardCase& c, const ForwardInputs& inputs, Errors* errors = nullptr);

  // For a result at hand.
  void compare(const ForwardCase& c, const ForwardInputs& inputs, const ForwardResult& result, Errors* errors = nullptr) const;

 private:
  struct Session {
    std::unique_ptr<Backend> backend;
    std::unique_ptr<TestDevice> device;
    std::string unavailable;  // why there is no backend
  };
  // One for each target, until the end of the process: making a backend may be slow, and loaded kernels serve all tests.
  static Session& session_of(const OperatorTarget& target);
  friend class SessionEnvironment;

  Session* session_ = nullptr;
  int cases_ = 0, refusals_ = 0;
  std::string last_refusal_;
};

}  // namespace tandem::testing
