#include "support/compare.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/number_format.hpp"

namespace tandem::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A right result, to be spoilt.
class Comparison : public ::testing::Test {
 protected:
  Comparison() {
    case_.problem = make_problem(ElementType::bf16, {.seqlen_q = 9, .seqlen_k = 6, .num_heads = 2, .head_dim = 16, .causal = true});
    const ForwardInputs inputs = make_inputs(case_);
    const auto compute = [&](Arithmetic arithmetic) {
      return reference_rows(case_.problem, inputs.q.values(), inputs.k.values(), inputs.v.values(), static_cast<double>(case_.softmax_scale),
                            every_row(case_.problem), arithmetic);
    };
    exact_ = compute(Arithmetic::exact);
    standard_ = compute(Arithmetic::same_dtype);
    ours_.out = Values(out_shape(case_.problem));
    for (std::size_t r = 0; r < exact_.rows.size(); ++r) {
      const Row& row = exact_.rows[r];
      for (std::int64_t d = 0; d < 16; ++d) {
        ours_.out.at(0, row.query, row.head, d) = static_cast<float>(round_to(ElementType::bf16, exact_.out[r * 16 + static_cast<std::size_t>(d)]));
      }
      ours_.lse.push_back(static_cast<float>(exact_.lse[r]));
    }
  }

  bool right() const { return is_right(case_, ours_, exact_, standard_) && every_row_is_defined(case_, ours_); }

  ForwardCase case_;
  ReferenceRows exact_, standard_;
  ForwardResult ours_;
};

TEST_F(Comparison, AcceptsTheRoundedReference) {
  EXPECT_TRUE(is_right(case_, ours_, exact_, standard_));
  EXPECT_TRUE(every_row_is_defined(case_, ours_));
}

TEST_F(Comparison, RejectsANumberWhereNanIsDueAndNanWhereANumberIs) {
  ours_.out.at(0, 5, 1, 3) = kNan;
  EXPECT_FALSE(is_right(case_, ours_, exact_, standard_));
  EXPECT_FALSE(every_row_is_defined(case_, ours_));
}

TEST_F(Comparison, RejectsANumberThatIsNearlyZeroInARowThatSeesNothing) {
  ours_.out.at(0, 1, 0, 0) = 1e-30f;
  EXPECT_FALSE(is_right(case_, ours_, exact_, standard_));
  EXPECT_FALSE(every_row_is_defined(case_, ours_));
}

TEST_F(Comparison, RejectsAnErrorOfSomeUnits) {
  ours_.out.at(0, 7, 1, 3) += 0.05f;
  EXPECT_FALSE(right());
}

TEST_F(Comparison, RejectsAnLseThatIsSlightlyWrong) {
  ours_.lse[7] *= 1.0001f;
  EXPECT_FALSE(right());
}

TEST_F(Comparison, RejectsAnLseToBaseTwo) {
  for (float& lse : ours_.lse) lse *= 1.442695f;
  EXPECT_FALSE(right());
}

TEST_F(Comparison, RejectsAFiniteLseOfARowThatSeesNothing) {
  ours_.lse[0] = -1e30f;
  EXPECT_FALSE(is_right(case_, ours_, exact_, standard_));
  EXPECT_FALSE(every_row_is_defined(case_, ours_));
}

TEST_F(Comparison, RejectsPlusInfinityForMinusInfinity) {
  ours_.lse[0] = kInfinity;
  EXPECT_FALSE(is_right(case_, ours_, exact_, standard_));
}

TEST_F(Comparison, TheMessageHoldsTheCase) {
  ours_.lse[7] = 0.0f;
  EXPECT_NE(std::string(is_right(case_, ours_, exact_, standard_).message()).find(describe(case_)), std::string::npos);
}

TEST_F(Comparison, BitsAreComparedWithOneNanAsGoodAsAnother) {
  ForwardResult a = ours_, b = ours_;
  EXPECT_TRUE(same_bits(case_, a, b));
  a.lse[7] = kNan;
  b.lse[7] = -kNan;
  EXPECT_TRUE(same_bits(case_, a, b));
  a.lse[8] = std::nextafter(b.lse[8], 100.0f);
  EXPECT_FALSE(same_bits(case_, a, b));
}

}  // namespace
}  // namespace tandem::testing
