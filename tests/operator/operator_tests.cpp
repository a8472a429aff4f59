#include "operator/operator_tests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <ostream>

namespace tandem::testing {
namespace {

bool has_aligned_layouts(const ForwardCase& c) {
  const auto aligned = [&](Layout layout) {
    switch (layout) {
      case Layout::bshd:
      case Layout::bhsd:
      case Layout::sbhd:
      case Layout::fused_slice:
      case Layout::padded_rows:
      case Layout::every_second_row:
      case Layout::cache_prefix: return true;
      case Layout::odd_unit_strides: return true;
      default: return false;
    }
  };
  return aligned(c.q_layout) && aligned(c.k_layout) && aligned(c.v_layout) && aligned(c.out_layout);
}

// What is due of every backend.
bool is_due(const ForwardCase& c) {
  const ForwardProblem& p = c.problem;
  const bool head_dims = p.head_dim % 8 == 0 && p.head_dim <= 256 && p.head_dim_v % 8 == 0 && (p.head_dim_v <= 256 || p.head_dim_v == 512);
  return p.type != ElementType::fp32 && head_dims && has_aligned_layouts(c);
}

}  // namespace

void PrintTo(const OperatorTarget& target, std::ostream* out) { *out << target.name; }

// Backends go before the static objects that they may rely on.
class SessionEnvironment : public ::testing::Environment {
 public:
  void TearDown() override { sessions.clear(); }

  std::map<std::string, OperatorTest::Session> sessions;
};

OperatorTest::Session& OperatorTest::session_of(const OperatorTarget& target) {
  // gtest owns it and tears it down after the last test.
  static auto* const environment = static_cast<SessionEnvironment*>(::testing::AddGlobalTestEnvironment(new SessionEnvironment));
  const auto [entry, is_new] = environment->sessions.try_emplace(target.name);
  Session& session = entry->second;
  if (is_new) {
    auto backend = target.make_backend();
    if (backend.ok()) {
      session.backend = std::move(backend).value();
      session.device = target.make_device();
    } else {
      EXPECT_EQ(backend.status().code(), StatusCode::unavailable) << backend.status().message();
      session.unavailable = backend.status().message();
    }
  }
  return session;
}

void OperatorTest::SetUp() {
  session_ = &session_of(GetParam());
  if (session_->backend == nullptr) GTEST_SKIP() << session_->unavailable;
}

void OperatorTest::TearDown() {
  RecordProperty("cases", cases_);
  RecordProperty("refused", refusals_);
  if (refusals_ == 0 || HasFailure()) return;
  const std::string text = fmt::format("{} of {} cases refused, the last because {}", refusals_, cases_, last_refusal_);
  if (refusals_ == cases_) GTEST_SKIP() << text;
  fmt::print("[ refused  ] {}\n", text);
}

std::int64_t OperatorTest::tiles_of(const ForwardProblem& p) { return p.batch_of_q() * p.num_heads * ((p.seqlen_q + 63) / 64); }

bool OperatorTest::fits(const ForwardProblem& problem) const { return flops_of(problem) <= limits().max_flops && tiles_of(problem) <= limits().max_tiles; }

ForwardProblem OperatorTest::largest_that_fits(ElementType type, std::initializer_list<ProblemShape> shapes) const {
  ForwardProblem problem;
  for (const ProblemShape& shape : shapes) {
    problem = make_problem(type, shape);
    if (fits(problem)) break;
  }
  return problem;
}

ForwardCase OperatorTest::usual(const ForwardProblem& problem) {
  ForwardCase c;
  c.problem = problem;
  c.softmax_scale = usual_scale(problem.head_dim);
  return c;
}

bool OperatorTest::refused(const ForwardCase& c, const Status& status, bool was_refused) {
  ++cases_;
  if (!was_refused) return false;
  ++refusals_;
  last_refusal_ = status.message();
  EXPECT_EQ(status.code(), StatusCode::unsupported) << describe(c) << ": " << status.message();
  EXPECT_FALSE(status.message().empty()) << describe(c) << ": a refusal without a reason";
  const bool due = limits().must_be_served ? limits().must_be_served(c) : is_due(c);
  EXPECT_FALSE(due) << describe(c) << " must be served, but: " << status.message();
  return true;
}

std::unique_ptr<ForwardResult> OperatorTest::run(const ForwardCase& c, const ForwardInputs& inputs, const Placement& out) {
  // For a run that may be ended from outside: the last line says which problem a kernel hangs in.
  if (std::getenv("TANDEM_TEST_TRACE") != nullptr) fmt::print(stderr, "[ case     ] {}\n", describe(c));
  auto result = std::make_unique<ForwardResult>(run_forward(backend(), device(), c, inputs, out));
  if (refused(c, result->status, result->refused) || !result->status.ok()) return nullptr;
  return result;
}

std::unique_ptr<ForwardResult> OperatorTest::run(const ForwardCase& c, const ForwardInputs& inputs) {
  return run(c, inputs, place(c.out_layout, out_shape(c.problem)));
}

void OperatorTest::compare(const ForwardCase& c, const ForwardInputs& inputs, const ForwardResult& result, Errors* errors) const {
  const ForwardProblem& p = c.problem;
  const double flops_of_row = 2.0 * static_cast<double>(std::max<std::int64_t>(Sequences(c).longest_k(), 1)) * static_cast<double>(p.head_dim + p.head_dim_v);
  const auto limit = std::max<std::int64_t>(16, static_cast<std::int64_t>(limits().reference_flops / flops_of_row));
  const std::vector<Row> rows = some_rows(c, limit);
  const Values q = inputs.q.values(), k = inputs.k.values(), v = inputs.v.values();
  const ReferenceRows exact = reference_rows(c, q, k, v, rows, Arithmetic::exact);
  const ReferenceRows same_dtype = reference_rows(c, q, k, v, rows, Arithmetic::same_dtype);
  EXPECT_TRUE(is_right(c, result, exact, same_dtype, errors, limits().tanh_error));
}

std::unique_ptr<ForwardResult> OperatorTest::expect_right(const ForwardCase& c, const ForwardInputs& inputs, Errors* errors) {
  std::unique_ptr<ForwardResult> result = run(c, inputs);
  if (result != nullptr) compare(c, inputs, *result, errors);
  return result;
}

std::unique_ptr<ForwardResult> OperatorTest::expect_right(const ForwardCase& c) {
  std::unique_ptr<ForwardResult> result = expect_right(c, make_inputs(c));
  // The generated values are finite, so every row has a defined result, compared or not.
  if (result != nullptr) {
    EXPECT_TRUE(every_row_is_defined(c, *result));
  }
  return result;
}

}  // namespace tandem::testing
