// Problem -> Plan: every supported problem gets a kernel that can be built, every other one a sentence.
#include "plan/planner.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include <limits>

#include "attention/budget.hpp"
#include "plan/spec_text.hpp"

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

ForwardProblem problem(std::int64_t head_dim, std::int64_t head_dim_v, bool causal = false, ElementType type = ElementType::bf16) {
  return {.type = type,
          .batch = 2,
          .seqlen_q = 4096,
          .seqlen_k = 4096,
          .num_heads = 16,
          .num_heads_kv = 4,
          .head_dim = head_dim,
          .head_dim_v = head_dim_v,
          .causal = causal};
}

void expect_good_plan(const ForwardProblem& problem) {
  const auto planned = plan_forward(problem, {});
  ASSERT_TRUE(planned.ok()) << planned.status().message();
  const ForwardPlan& plan = planned.value();
  const ForwardSpec& spec = plan.spec;
  SCOPED_TRACE(to_text(spec));
  EXPECT_EQ(budget::broken_rule(spec), nullptr);
  EXPECT_EQ(spec.dtype, problem.type == ElementType::bf16 ? DType::bf16 : DType::fp16);
  EXPECT_EQ(spec.head_dim, (problem.head_dim + 15) / 16 * 16);
  EXPECT_EQ(spec.head_dim_v, tile_width_v(problem.head_dim_v));
  EXPECT_EQ(spec.causal, problem.causal);
  EXPECT_EQ(plan.geometry.threads, 128 * (spec.consumer_warpgroups + 1));
  EXPECT_EQ(plan.geometry.shared_bytes, budget::shared_ledger(spec).total());
  EXPECT_EQ(plan.geometry.cluster, spec.cluster);
  EXPECT_FALSE(plan.reason.empty());
  const bool empty = problem.batch == 0 || problem.num_heads == 0 || problem.seqlen_q == 0;
  EXPECT_EQ(plan.geometry.grid == 0, empty);
  EXPECT_EQ(plan.geometry.order.tiles == 0, empty);
}

TEST(Planner, ServesEveryHeadDimThatIsAMultipleOfEight) {
  for (std::int64_t head_dim = 8; head_dim <= 256; head_dim += 8)
    for (const bool causal : {false, true})
      for (const ElementType type : {ElementType::bf16, ElementType::fp16}) expect_good_plan(problem(head_dim, head_dim, causal, type));
}

TEST(Planner, TilesOfVAreNoWiderThanTheyNeedBe) {
  for (std::int64_t head_dim_v = 1; head_dim_v <= 256; ++head_dim_v) {
    const std::int64_t next = std::max<std::int64_t>(16, (head_dim_v + 7) / 8 * 8);
    const bool slow = next == 88 || next == 152 || next == 216;
    EXPECT_EQ(tile_width_v(head_dim_v), slow ? next + 8 : next);
  }
}

TEST(Planner, ServesEveryPairOfHeadDims) {
  for (std::int64_t head_dim = 8; head_dim <= 256; head_dim += 8)
    for (std::int64_t head_dim_v = 8; head_dim_v <= 256; head_dim_v += 8) {
      const auto plan = plan_forward(problem(head_dim, head_dim_v), {});
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      ASSERT_EQ(budget::broken_rule(plan.value().spec), nullptr) << to_text(plan.value().spec);
      ASSERT_EQ(plan.value().spec.head_dim, tile_width(head_dim));
      ASSERT_EQ(plan.value().spec.head_dim_v, tile_width_v(head_dim_v));
    }
}

TEST(Planner, ServesTheHeadDimsOfLatentAttention) {
  for (const bool causal : {false, true})
    for (const ElementType type : {ElementType::bf16, ElementType::fp16}) expect_good_plan(problem(192, 128, causal, type));
}

TEST(Planner, ServesEveryLength) {
  const std::int64_t lengths[] = {0, 1, 2, 11, 63, 64, 65, 99, 127, 128, 129, 255, 1763, 65'536, 1 << 22, (1 << 22) + 1, 1 << 30, 2'147'482'623};
  for (const std::int64_t seqlen_q : lengths)
    for (const std::int64_t seqlen_k : lengths)
      for (const std::int64_t head_dim : {64, 96, 128, 256})
        for (const bool causal : {false, true}) {
          if (seqlen_q + seqlen_k > 2'147'482'623) continue;
          ForwardProblem of_length = problem(head_dim, head_dim, causal);
          of_length.batch = of_length.num_heads = of_length.num_heads_kv = 1;
          of_length.seqlen_q = seqlen_q;
          of_length.seqlen_k = seqlen_k;
          SCOPED_TRACE(std::to_string(seqlen_q) + " queries, " + std::to_string(seqlen_k) + " keys");
          expect_good_plan(of_length);
        }
}

TEST(Planner, ServesEmptyProblems) {
  for (auto axis : {&ForwardProblem::batch, &ForwardProblem::seqlen_q, &ForwardProblem::seqlen_k, &ForwardProblem::num_heads}) {
    ForwardProblem empty = problem(128, 128);
    empty.*axis = 0;
    expect_good_plan(empty);
  }
  ForwardProblem without_heads = problem(128, 128);
  without_heads.num_heads = without_heads.num_heads_kv = 0;
  expect_good_plan(without_heads);
}

TEST(Planner, ServesBatchAndHeadsBeyondSixteenBits) {
  for (auto axis : {&ForwardProblem::batch, &ForwardProblem::num_heads}) {
    ForwardProblem many = problem(64, 64, true);
    many.num_heads_kv = 1;
    many.seqlen_q = many.seqlen_k = 16;
    many.*axis = 70'000;
    expect_good_plan(many);
  }
}

TEST(Planner, ServesEveryRatioOfHeads) {
  for (std::int64_t heads_kv = 1; heads_kv <= 8; ++heads_kv)
    for (std::int64_t ratio = 1; ratio <= 17; ++ratio) {
      ForwardProblem grouped = problem(128, 128);
      grouped.num_heads_kv = heads_kv;
      grouped.num_heads = heads_kv * ratio;
      expect_good_plan(grouped);
    }
}

TEST(Planner, AnswersTheSameEveryTime) {
  for (const bool causal : {false, true}) {
    const auto first = plan_forward(problem(96, 96, causal), {}), second = plan_forward(problem(96, 96, causal), {});
    EXPECT_EQ(first.value().spec, second.value().spec);
    EXPECT_EQ(first.value().reason, second.value().reason);
  }
}

TEST(Planner, ASoftcapWaitsForNoTurnWhereItsSoftmaxIsLongerThanTheGemms) {
  for (const bool causal : {false, true}) {
    ForwardProblem capped;
    for (const int head_dim : {48, 128, 144}) {  // with and without a line in the table
      capped = problem(head_dim, head_dim, causal);
      EXPECT_EQ(plan_forward(capped, {}).value().spec.turns, Turns::gemm_issue);
      capped.softcap = true;
      EXPECT_EQ(plan_forward(capped, {}).value().spec.turns, Turns::none) << head_dim;
    }
    capped.head_dim = capped.head_dim_v = 256;
    EXPECT_EQ(plan_forward(capped, {}).value().spec.turns, Turns::gemm_issue);
  }
}

TEST(Planner, FillsADeviceOfAnySize) {
  for (const int multiprocessors : {1, 78, 114, 132}) {
    DeviceShape device;
    device.multiprocessors = multiprocessors;
    const auto plan = plan_forward(problem(128, 128), device);
    ASSERT_TRUE(plan.ok());
    EXPECT_LE(plan.value().geometry.grid, multiprocessors * plan.value().spec.ctas_per_sm);
    EXPECT_GE(plan.value().geometry.grid, 1);
  }
}

// --------------------------------------------------------------------------------------------------------------------------- refusals

std::string refusal(const ForwardProblem& problem) {
  const auto plan = plan_forward(problem, {});
  EXPECT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::unsupported);
  EXPECT_EQ(plan.status().message(), unsupported_reason(problem));
  return plan.status().message();
}

TEST(PlannerRefusal, NamesTheTypeThatTheKernelsDoNotTake) {
  EXPECT_THAT(refusal(problem(128, 128, false, ElementType::fp32)), AllOf(HasSubstr("fp32"), HasSubstr("fp16 and bf16")));
}

TEST(PlannerRefusal, NamesTheHeadDimAndItsValue) {
  for (const std::int64_t head_dim : {std::int64_t{0}, std::int64_t{4}, std::int64_t{12}, std::int64_t{100}, std::int64_t{264}, std::int64_t{1} << 40}) {
    EXPECT_THAT(refusal(problem(head_dim, 128)), AllOf(StartsWith("head_dim is " + std::to_string(head_dim)), HasSubstr("multiples of 8 from 8 to 256")));
    EXPECT_THAT(refusal(problem(128, head_dim)), StartsWith("head_dim_v is " + std::to_string(head_dim)));
  }
}

TEST(PlannerRefusal, NamesTheLengthThatIsTooLong) {
  constexpr std::int64_t kTooLong = (std::int64_t{1} << 31) - 1'024;
  ForwardProblem queries = problem(128, 128), keys = queries, both = queries;
  queries.seqlen_q = kTooLong;
  keys.seqlen_k = kTooLong;
  both.seqlen_q = both.seqlen_k = kTooLong / 2;
  both.batch = both.num_heads = both.num_heads_kv = 1;
  EXPECT_THAT(refusal(queries), AllOf(StartsWith("seqlen_q is 2147482624"), HasSubstr("2^31 - 1024")));
  EXPECT_THAT(refusal(keys), StartsWith("seqlen_k is 2147482624"));
  EXPECT_THAT(refusal(both), StartsWith("seqlen_q + seqlen_k is 2147482624"));

  ForwardProblem longest = problem(128, 128);
  longest.seqlen_q = 1;
  longest.seqlen_k = kTooLong - 2;
  EXPECT_EQ(unsupported_reason(longest), "") << "the sentence says that less than 2^31 - 1024 is accepted";
}

TEST(PlannerRefusal, NamesTheCountThatIsTooLarge) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 32;
  const struct {
    std::int64_t batch, heads, queries;
    const char* beginning;
  } cases[] = {
      {kHuge, 1, 1, "batch is 4294967296"},
      {1, kHuge, 1, "num_heads is 4294967296"},
      {kHuge, kHuge, 64, "batch is 4294967296"},  // the product wraps to 0
      {kHuge, 1, 0, "batch is 4294967296"},       // no tiles, but a count that no launch could hold
      {1 << 16, 1 << 16, 1, "batch x num_heads is 4294967296"},
      {1 << 20, 64, 4096, "batch x num_heads x seqlen_q / 64 is 4294967296"},
      {1, 1 << 30, 192, "batch x num_heads x seqlen_q / 64 is 3221225472"},
  };
  for (const auto& [batch, heads, queries, beginning] : cases) {
    ForwardProblem large = problem(128, 128);
    large.batch = batch;
    large.num_heads = heads;
    large.num_heads_kv = 1;
    large.seqlen_q = queries;
    EXPECT_THAT(refusal(large), AllOf(StartsWith(beginning), HasSubstr("2^31 - 1024")));
  }
}

// -------------------------------------------------------------------------------------------------------------------------- overrides

TEST(PlannerOverride, ChangesTheSchedule) {
  const auto plan = plan_forward(problem(128, 128), {}, "block_n=64,stages=3");
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan.value().spec.block_n, 64);
  EXPECT_EQ(plan.value().spec.stages, 3);
  EXPECT_FALSE(plan.value().tuned);
  EXPECT_THAT(plan.value().reason, HasSubstr("block_n=64,stages=3"));
}

TEST(PlannerOverride, MayNotChangeTheProblem) {
  for (const char* text : {"dtype=fp16", "head_dim=64", "head_dim_v=64", "causal=true"}) {
    const auto plan = plan_forward(problem(128, 128), {}, text);
    ASSERT_FALSE(plan.ok()) << text;
    EXPECT_THAT(plan.status().message(), HasSubstr("may change the schedule"));
  }
}

TEST(PlannerOverride, IsRefusedWithTheSentenceOfTheParser) {
  const auto plan = plan_forward(problem(128, 128), {}, "block_n=wide");
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(plan.status().message(), HasSubstr("'wide'"));
}

TEST(Planner, AMaskTakesTheRegistersOfQAndKeepsTheTile) {
  for (const int head_dim : {72, 80})
    for (const bool causal : {false, true})
      for (const bool softcap : {false, true}) {
        ForwardProblem masked = problem(head_dim, head_dim, causal);
        masked.batch = 8;
        masked.softcap = softcap;
        if (!softcap) masked.window_left = 1024;
        const auto plan = plan_forward(masked, {});
        ASSERT_TRUE(plan.ok()) << plan.status().message();
        EXPECT_TRUE(plan.value().tuned) << to_text(plan.value().spec);
        EXPECT_EQ(plan.value().spec.block_m(), 192) << to_text(plan.value().spec);
        EXPECT_FALSE(plan.value().spec.q_in_registers) << to_text(plan.value().spec);
      }
}

TEST(Planner, AMaskThatATileLeavesNoRoomForGetsAnotherTileOfTheTable) {
  for (const int head_dim : {72, 80, 88, 96, 112, 128})
    for (const bool causal : {false, true})
      for (const int seqlen : {512, 4096, 16384})
        for (const auto& [window, softcap] : {std::pair{true, false}, std::pair{false, true}, std::pair{true, true}}) {
          ForwardProblem masked = problem(head_dim, head_dim, causal);
          masked.seqlen_q = masked.seqlen_k = seqlen;
          masked.batch = 8;
          masked.softcap = softcap;
          if (window) masked.window_left = 1024;
          const auto plan = plan_forward(masked, {});
          ASSERT_TRUE(plan.ok()) << plan.status().message();
          EXPECT_TRUE(plan.value().tuned) << seqlen << ' ' << to_text(plan.value().spec);
          EXPECT_GE(plan.value().spec.block_m() * plan.value().spec.ctas_per_sm, 128) << to_text(plan.value().spec);
        }
}

TEST(Planner, AMaskBringsNoTileOfMoreRowsThanTheProblemHadWithoutIt) {
  for (const int head_dim : {64, 72, 80, 88, 96, 112, 128})
    for (const bool causal : {false, true})
      for (const int num_heads : {4, 16})
        for (const int seqlen : {512, 4096}) {
          ForwardProblem plain = problem(head_dim, head_dim, causal);
          plain.seqlen_q = plain.seqlen_k = seqlen;
          plain.batch = 1;
          plain.num_heads = plain.num_heads_kv = num_heads;
          ForwardProblem windowed = plain, capped = plain, packed = plain;
          windowed.window_left = 128;
          capped.softcap = true;
          packed.packed_q = packed.packed_k = true;
          const auto without = plan_forward(plain, {});
          ASSERT_TRUE(without.ok());
          for (const ForwardProblem& masked : {windowed, capped, packed}) {
            const auto plan = plan_forward(masked, {});
            ASSERT_TRUE(plan.ok()) << plan.status().message();
            EXPECT_LE(plan.value().spec.block_m(), without.value().spec.block_m()) << seqlen << ' ' << to_text(plan.value().spec);
          }
        }
}

// bench/records: rates of many schedules at head dims that the table has no line for. What the model chooses is never far behind the best of them.
TEST(Planner, ModelsHeadDimsWithoutALineCloseToTheBestThatWasTimed) {
  std::ifstream file(TANDEM_SOURCE_DIR "/bench/records/2026-12-01T020630-h200-unlisted-head-dims.json");
  const auto record = nlohmann::json::parse(file);
  int timed = 0;
  double sum = 0;
  for (const auto& row : record["rows"]) {
    const int head_dim = row["head_dim"], seqlen = row["seqlen"];
    ForwardProblem asked = problem(head_dim, head_dim, row["causal"]);
    asked.seqlen_q = asked.seqlen_k = seqlen;
    asked.batch = 16384 / seqlen;
    asked.num_heads = asked.num_heads_kv = 2048 / head_dim;
    const auto plan = plan_forward(asked, {});
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_FALSE(plan.value().tuned);
    const ForwardSpec& spec = plan.value().spec;
    const std::string name = fmt::format("m{}n{}_x{}{}{}", spec.block_m(), spec.block_n, spec.ctas_per_sm, spec.q_in_registers ? "_qreg" : "",
                                         spec.output_stage == OutputStage::own ? "_own" : "");
    double best = 0;
    for (const auto& [schedule, rate] : row["tflops"].items()) best = schedule.starts_with('m') ? std::max(best, rate.get<double>()) : best;
    if (!row["tflops"].contains(name)) {
      EXPECT_EQ(name, "m192n112_x1_qreg_own") << "not timed, at head dim 48 between two that were";
      continue;
    }
    const double share = row["tflops"][name].get<double>() / best;
    EXPECT_GE(share, 0.9) << head_dim << ' ' << seqlen << ' ' << name;
    sum += share;
    ++timed;
  }
  EXPECT_GE(timed, 24);
  EXPECT_GE(sum / timed, 0.97);
}

TEST(Planner, FewTilesGetTheSmallestThatServeTheirHeadDim) {
  for (const int head_dim : {64, 72, 80, 88, 96}) {
    ForwardProblem few = problem(head_dim, head_dim);
    few.batch = 1;
    few.num_heads = 2;
    const auto plan = plan_forward(few, {});
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_EQ(plan.value().spec.block_m(), head_dim == 64 ? 64 : 128) << head_dim;
  }
}

}  // namespace
}  // namespace tandem
