// Contract 2, 3 and 5: windows, chunks, softcap and sinks, alone and together.
#include <algorithm>
#include <cmath>
#include <limits>

#include "operator/operator_tests.hpp"

namespace tandem::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Mask {
  bool causal = false;
  std::int64_t left = -1, right = -1, chunk = 0;
};

void set_mask(ForwardProblem& p, const Mask& mask) {
  p.causal = mask.causal;
  p.window_left = mask.left;
  p.window_right = mask.right;
  p.attention_chunk = mask.chunk;
}

ForwardProblem masked(const ForwardProblem& problem, const Mask& mask) {
  ForwardProblem p = problem;
  set_mask(p, mask);
  return p;
}

constexpr Mask kMasks[] = {
    {.left = 17},
    {.right = 5},
    {.left = 17, .right = 5},
    {.left = 0, .right = 0},
    {.left = 64, .right = 64},
    {.left = 200, .right = 1},
    {.chunk = 50},
    {.chunk = 64},
    {.chunk = 1},
    {.causal = true, .left = 40},
    {.causal = true, .left = 0},
    {.causal = true, .left = 40, .right = 7},
    {.causal = true, .chunk = 50},
    {.left = 30, .chunk = 50},
    {.right = 9, .chunk = 96},
    {.left = 30, .right = 9, .chunk = 50},
    {.causal = true, .left = 30, .chunk = 50},
};

// Equal lengths, and more of one than of the other.
constexpr std::pair<std::int64_t, std::int64_t> kLengths[] = {{200, 200}, {70, 301}, {301, 70}, {1, 257}, {129, 128}};

TEST_P(OperatorTest, EveryMaskIsBottomRightAligned) {
  for (const ElementType type : types()) {
    for (const Mask& mask : kMasks) {
      for (const auto& [seqlen_q, seqlen_k] : kLengths) {
        const ForwardProblem p = make_problem(type, {.seqlen_q = seqlen_q, .seqlen_k = seqlen_k, .num_heads = 2, .num_heads_kv = 1});
        if (fits(p)) expect_right(usual(masked(p, mask)));
      }
    }
  }
}

TEST_P(OperatorTest, MasksJoinWithSoftcapAndSinks) {
  for (const ElementType type : types()) {
    for (const Mask& mask : {Mask{}, Mask{.causal = true}, Mask{.left = 17, .right = 5}, Mask{.causal = true, .left = 40}, Mask{.chunk = 50}}) {
      for (const bool softcap : {false, true}) {
        for (const std::int64_t head_dim : {80, 128}) {
          ForwardCase c = usual(make_problem(type, {.seqlen_q = 140, .seqlen_k = 77, .num_heads = 4, .num_heads_kv = 2, .head_dim = head_dim}));
          set_mask(c.problem, mask);
          c.values = ValueKind::wide;
          if (softcap) set_softcap(c, 5.0f);
          set_sinks(c, {0.0f, -3.0f, 4.0f, -kInfinity});
          expect_right(c);
        }
      }
    }
  }
}

TEST_P(OperatorTest, BC49_ANegativeOrAnEndlessSideIsNoWindow) {
  for (const ElementType type : types()) {
    const ForwardProblem plain = make_problem(type, {.seqlen_q = 70, .seqlen_k = 90, .num_heads = 2});
    const auto open = run(usual(plain), make_inputs(usual(plain)));
    ForwardProblem causal_problem = plain;
    causal_problem.causal = true;
    const auto causal = run(usual(causal_problem), make_inputs(usual(causal_problem)));
    if (open == nullptr || causal == nullptr) continue;
    for (const std::int64_t left :
         {std::int64_t{-1}, std::int64_t{-7}, std::int64_t{160}, std::int64_t{1'000'000'000}, std::numeric_limits<std::int64_t>::max()}) {
      for (const std::int64_t right : {std::int64_t{-1}, std::int64_t{-9}, std::int64_t{160}, std::numeric_limits<std::int64_t>::max(), std::int64_t{0}}) {
        const ForwardCase c = usual(masked(plain, {.left = left, .right = right}));
        const auto result = run(c, make_inputs(c));
        ASSERT_NE(result, nullptr);
        EXPECT_TRUE(same_bits(c, *result, right == 0 ? *causal : *open));
      }
    }
  }
}

TEST_P(OperatorTest, BC49_WindowsOfEveryReach) {
  for (const ElementType type : types()) {
    const ForwardProblem p = make_problem(type, {.seqlen_q = 65, .seqlen_k = 97});
    for (const std::int64_t left : {-1, 0, 1, 96, 97, 1'000'000'000})
      for (const std::int64_t right : {-1, 0, 1, 96, 97, 1'000'000'000}) expect_right(usual(masked(p, {.left = left, .right = right})));
  }
}

TEST_P(OperatorTest, AWindowToTheLeftOfACausalMaskShowsOneKeyMoreThanItReaches) {
  // Uniform scores and values that count: O of a row is the mean of the keys it sees.
  for (const ElementType type : types()) {
    for (const std::int64_t left : {0, 1, 5, 63, 64}) {
      const ForwardCase c = usual(masked(make_problem(type, {.seqlen_q = 130, .seqlen_k = 130}), {.causal = true, .left = left}));
      ForwardInputs inputs = make_inputs(c);
      inputs.q.set(Values(q_shape(c.problem)));
      const auto result = expect_right(c, inputs);
      if (result == nullptr) continue;
      for (std::int64_t i = 0; i < 130; ++i)
        EXPECT_NEAR(result->lse_at(c.problem, 0, 0, i), std::log(static_cast<double>(std::min(i, left) + 1)), 1e-5) << describe(c) << " query " << i;
    }
  }
}

TEST_P(OperatorTest, BC14_RowsThatSeeNoKeyAreZeroWithAnLseOfMinusInfinityOrTheSink) {
  for (const ElementType type : types()) {
    for (const Mask& mask : {Mask{.left = 32, .right = 3}, Mask{.causal = true, .left = 8}, Mask{.chunk = 40}}) {
      for (const std::int64_t seqlen_k : {1, 64}) {
        for (const bool sinks : {false, true}) {
          ForwardCase c = usual(masked(make_problem(type, {.seqlen_q = 129, .seqlen_k = seqlen_k, .num_heads = 2}), mask));
          if (sinks) set_sinks(c, {1.25f, -2.5f});
          const auto result = expect_right(c);
          if (result == nullptr) continue;
          const std::int64_t last = 129 - seqlen_k - 1 - std::max<std::int64_t>(mask.right, 0);  // that sees nothing
          for (std::int64_t i = 0; i <= last; ++i) {
            for (std::int64_t d = 0; d < 64; ++d) ASSERT_EQ(result->out.at(0, i, 1, d), 0.0f) << describe(c) << " query " << i;
            ASSERT_EQ(result->lse_at(c.problem, 0, 1, i), sinks ? -2.5f : -kInfinity) << describe(c) << " query " << i;
          }
          ASSERT_TRUE(std::isfinite(result->lse_at(c.problem, 0, 1, last + 1)));
        }
      }
    }
  }
}

TEST_P(OperatorTest, BC52_MaskedTilesAtBothEndsOfLongRows) {
  for (const ElementType type : types()) {
    for (const Mask& mask : {Mask{.right = 100}, Mask{.left = 500, .right = 300}, Mask{.causal = true, .left = 700}, Mask{.chunk = 333}}) {
      const ForwardProblem p = largest_that_fits(type, {{.seqlen_q = 1763, .seqlen_k = 1763, .num_heads = 2}, {.seqlen_q = 129, .seqlen_k = 400}});
      expect_right(usual(masked(p, mask)));
    }
  }
}

TEST_P(OperatorTest, BC54_ChunksThatDivideNoTile) {
  for (const ElementType type : types()) {
    for (const bool causal : {false, true})
      for (const std::int64_t chunk : {1, 3, 64, 100, 127, 1000})
        for (const auto& [seqlen_q, seqlen_k] : kLengths)
          expect_right(usual(masked(make_problem(type, {.seqlen_q = seqlen_q, .seqlen_k = seqlen_k}), {.causal = causal, .chunk = chunk})));
  }
}

TEST_P(OperatorTest, BC41_SoftcapBoundsScoresAndAWideOneChangesNothing) {
  for (const ElementType type : types()) {
    for (const float softcap : {1e-3f, 0.5f, 15.0f, 50.0f, 1e4f, 1e30f}) {
      for (const bool causal : {false, true}) {
        ForwardCase c = usual(make_problem(type, {.seqlen_q = 99, .seqlen_k = 217, .num_heads = 2, .head_dim = 128, .causal = causal}));
        c.values = ValueKind::wide;
        set_softcap(c, softcap);
        expect_right(c);
      }
    }
  }
}

TEST_P(OperatorTest, BC41_SoftcapOfLogitsFarBeyondIt) {
  for (const ElementType type : types()) {
    for (const float magnitude : {1.0f, -1.0f}) {
      ForwardCase c = usual(make_problem(type, {.seqlen_q = 65, .seqlen_k = 97, .head_dim = 64}));
      set_softcap(c, 15.0f);
      c.softmax_scale = 1.0f;
      ForwardInputs inputs = make_inputs(c);
      inputs.q.set(Values(q_shape(c.problem), 16.0f));
      inputs.k.set(Values(k_shape(c.problem), 16.0f * magnitude));
      const auto result = expect_right(c, inputs);
      if (result == nullptr) continue;
      EXPECT_NEAR(result->lse_at(c.problem, 0, 0, 7), 15.0f * magnitude + std::log(97.0f), 1e-4f) << describe(c);
    }
  }
}

// Kernels may bend small scores by shorter means than large ones. Here large ones, of either sign, come at one key, from one key on, or in few rows.
TEST_P(OperatorTest, BC41_SoftcapOfScoresThatGrowAlongTheKeysOrFromRowToRow) {
  struct Setting {
    const char* name;
    float (*score)(double position);  // in units of the softcap; position: 0 at one end of the keys, 1 at the other
  };
  const Setting settings[] = {
      {"around a third", [](double x) { return static_cast<float>(0.36 * std::cos(90.0 * x)); }},
      {"slope of 2", [](double x) { return static_cast<float>(2.0 * x); }},
      {"slope of -2", [](double x) { return static_cast<float>(-2.0 * x); }},
      {"step of 1", [](double x) { return x > 0.4 ? 1.0f : 0.0f; }},
      {"one key of 3", [](double x) { return x > 0.4 && x < 0.41 ? 3.0f : 0.1f; }},
      {"one key of -3", [](double x) { return x > 0.4 && x < 0.41 ? -3.0f : 0.1f; }},
      {"all of -1 but the last", [](double x) { return x == 1.0 ? 0.0f : -1.0f; }},
  };
  constexpr float kSoftcap = 16.0f;
  for (const ElementType type : types()) {
    for (const ProblemShape& shape : {ProblemShape{.seqlen_q = 70, .seqlen_k = 520, .head_dim = 64},
                                      {.seqlen_q = 389, .seqlen_k = 389, .head_dim = 64},
                                      {.seqlen_q = 640, .seqlen_k = 640, .head_dim = 128, .causal = true}}) {
      const ForwardProblem p = make_problem(type, shape);
      if (!fits(p)) continue;
      ForwardCase c = usual(p);
      c.softmax_scale = 0.125f;
      set_softcap(c, kSoftcap);
      for (const Setting& setting : settings) {
        SCOPED_TRACE(setting.name);
        for (const int rows : {1, 16}) {  // of so many rows one is large; of 16 each time another one
          for (const bool towards_first : {true, false}) {
            ForwardInputs inputs = make_inputs(c);
            Random random(1);
            Values q = make_values(ValueKind::tiny, q_shape(p), random), k = make_values(ValueKind::tiny, k_shape(p), random);
            for (std::int64_t i = 0; i < p.seqlen_q; ++i) q.at(0, i, 0, 0) = rows == 1 || i % 16 == i / 16 * 5 % 16 ? 8.0f : 0.5f;
            for (std::int64_t j = 0; j < p.seqlen_k; ++j)
              k.at(0, j, 0, 0) = kSoftcap * setting.score(static_cast<double>(towards_first ? p.seqlen_k - 1 - j : j) / static_cast<double>(p.seqlen_k - 1));
            inputs.q.set(q);
            inputs.k.set(k);
            expect_right(c, inputs);
          }
        }
      }
    }
  }
}

// Scales, caps and scores at which squares and cubes of them leave fp32, or vanish in it. The last key alone is harmless.
TEST_P(OperatorTest, BC41_SoftcapOfScalesAndScoresFarFromOne) {
  struct Setting {
    float scale, softcap;
    std::vector<float> scores;  // q k, in turn
  };
  const Setting settings[] = {
      {0.125f, 1e-21f, {0.0f}},        {0.125f, 1e-21f, {1e-3f, -1e-3f}}, {0.125f, 1e30f, {1e20f, -1e20f}},       {0.125f, 1e30f, {-1e20f}},
      {1e-16f, 1.0f, {3e15f, -3e15f}}, {1e-16f, 1.0f, {3e15f, 0.0f}},     {1e-30f, 1e-3f, {1e25f, 0.0f, -1e25f}}, {1e8f, 1.0f, {3e-9f, -3e-9f}},
      {1e20f, 1e25f, {1e3f, 0.0f}},
  };
  for (const ElementType type : types()) {
    if (type == ElementType::fp16) continue;  // has no such numbers
    for (const Setting& setting : settings) {
      SCOPED_TRACE(setting.softcap);
      ForwardCase c = usual(make_problem(type, {.seqlen_q = 70, .seqlen_k = 520, .head_dim = 64}));
      c.softmax_scale = setting.scale;
      set_softcap(c, setting.softcap);
      ForwardInputs inputs = make_inputs(c);
      Values q(q_shape(c.problem), 0.0f), k(k_shape(c.problem), 0.0f);
      for (std::int64_t i = 0; i < 70; ++i) q.at(0, i, 0, 0) = 1.0f;
      for (std::int64_t j = 0; j < 519; ++j) k.at(0, j, 0, 0) = setting.scores[static_cast<std::size_t>(j) % setting.scores.size()];
      inputs.q.set(q);
      inputs.k.set(k);
      expect_right(c, inputs);
    }
  }
}

TEST_P(OperatorTest, SinksJoinTheSoftmaxOfTheirHeadAlone) {
  for (const ElementType type : types()) {
    ForwardCase c = usual(make_problem(type, {.seqlen_q = 130, .seqlen_k = 200, .num_heads = 4, .num_heads_kv = 2, .causal = true}));
    const ForwardInputs inputs = make_inputs(c);
    const auto plain = run(c, inputs);
    // One that is nothing, an equal among many, one that takes nearly all, and one whose exp is beyond fp32.
    set_sinks(c, {-kInfinity, 1.0f, 20.0f, 500.0f});
    const auto result = expect_right(c, inputs);
    if (plain == nullptr || result == nullptr) continue;
    for (std::int64_t i = 0; i < 130; ++i) {
      EXPECT_FLOAT_EQ(result->lse_at(c.problem, 0, 0, i), plain->lse_at(c.problem, 0, 0, i));
      EXPECT_GT(result->lse_at(c.problem, 0, 1, i), plain->lse_at(c.problem, 0, 1, i));
      EXPECT_FLOAT_EQ(result->lse_at(c.problem, 0, 3, i), 500.0f);
      for (std::int64_t d = 0; d < 64; ++d) EXPECT_EQ(result->out.at(0, i, 3, d), 0.0f);
    }
  }
}

TEST_P(OperatorTest, SinksFarBelowTheScoresChangeNothing) {
  for (const ElementType type : types()) {
    ForwardCase c = usual(make_problem(type, {.seqlen_q = 5, .seqlen_k = 64, .num_heads = 2}));
    set_sinks(c, {-1000.0f, -1e30f});
    expect_right(c);
  }
}

TEST_P(OperatorTest, BC126_ValuesWiderThanKeys) {
  for (const ElementType type : types()) {
    for (const std::int64_t head_dim_v : {128, 256, 264, 384, 512}) {
      for (const Mask& mask : {Mask{}, Mask{.causal = true}, Mask{.left = 17, .right = 5}}) {
        const ForwardProblem p =
            make_problem(type, {.seqlen_q = 70, .seqlen_k = 131, .num_heads = 2, .num_heads_kv = 1, .head_dim = 64, .head_dim_v = head_dim_v});
        if (fits(p)) expect_right(usual(masked(p, mask)));
      }
    }
  }
}

TEST_P(OperatorTest, MultiprocessorsLeftToOthersChangeNoResult) {
  for (const ElementType type : types()) {
    for (const int sm_margin : {1, 100, 1'000'000}) {
      ForwardCase c = usual(largest_that_fits(type, {{.batch = 2, .seqlen_q = 200, .seqlen_k = 200, .num_heads = 2, .causal = true},
                                                     {.batch = 2, .seqlen_q = 130, .seqlen_k = 60, .num_heads = 2, .causal = true}}));
      c.problem.sm_margin = sm_margin;
      expect_right(c);
    }
  }
}

}  // namespace
}  // namespace tandem::testing
