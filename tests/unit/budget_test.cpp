// What a spec takes of a multiprocessor: register splits, shared memory, and the rules that both must keep.
#include "attention/budget.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "jit/embedded_sources.hpp"
#include "plan/planner.hpp"
#include "plan/spec_text.hpp"
#include "plan/tuned.hpp"
#include "specs.hpp"

namespace tandem {
namespace {

using budget::kProducerRegistersCpAsync;
using budget::kProducerRegistersRagged;
using budget::kProducerRegistersTma;
using budget::register_split;
using budget::RegisterSplit;
using testing::RandomSpecs;

TEST(RegisterSplit, DerivesThePublishedConstants) {
  EXPECT_EQ(register_split(1, 1, kProducerRegistersTma), (RegisterSplit{.launch = 256, .producer = 56, .consumer = 256}));
  EXPECT_EQ(register_split(2, 1, kProducerRegistersTma), (RegisterSplit{.launch = 168, .producer = 24, .consumer = 240}));
  EXPECT_EQ(register_split(2, 1, kProducerRegistersCpAsync), (RegisterSplit{.launch = 168, .producer = 40, .consumer = 232}));
  EXPECT_EQ(register_split(3, 1, kProducerRegistersTma), (RegisterSplit{.launch = 128, .producer = 32, .consumer = 160}));
  EXPECT_EQ(register_split(2, 1, kProducerRegistersRagged), (RegisterSplit{.launch = 168, .producer = 40, .consumer = 232}));
  EXPECT_EQ(register_split(1, 2, kProducerRegistersTma), (RegisterSplit{.launch = 128, .producer = 24, .consumer = 232}));
  EXPECT_EQ(register_split(1, 3, kProducerRegistersTma), (RegisterSplit{.launch = 80, .producer = 24, .consumer = 136}));
  EXPECT_EQ(register_split(1, 4, kProducerRegistersTma), (RegisterSplit{.launch = 64, .producer = 24, .consumer = 104}));
}

TEST(RegisterSplit, NeverHandsOutMoreThanTheLaunchLeft) {
  for (int warpgroups = 1; warpgroups <= 3; ++warpgroups)
    for (int ctas = 1; ctas <= 4; ++ctas)
      for (const int producer : {kProducerRegistersTma, kProducerRegistersRagged, kProducerRegistersCpAsync}) {
        SCOPED_TRACE(std::to_string(warpgroups) + " warpgroups, " + std::to_string(ctas) + " blocks");
        const RegisterSplit split = register_split(warpgroups, ctas, producer);
        if (split.consumer < budget::register_ledger({.head_dim = 16, .head_dim_v = 16, .block_n = 16}).total()) continue;  // no spec fits
        EXPECT_LE(128 * (split.producer + warpgroups * split.consumer), 128 * (warpgroups + 1) * split.launch);
        EXPECT_LE(128 * (warpgroups + 1) * split.launch * ctas, budget::kRegistersPerSm);
        // setmaxnreg takes multiples of 8 from 24 to 256, .dec must not raise and .inc must not lower the launch's count.
        for (const int registers : {split.launch, split.producer, split.consumer}) {
          EXPECT_EQ(registers % 8, 0);
          EXPECT_GE(registers, 24);
          EXPECT_LE(registers, 256);
        }
        EXPECT_LE(split.producer, split.launch);
        EXPECT_GE(split.consumer, split.launch);
      }
}

// The struct that kernels/attention/storage.cuh lays out, by its rules: tiles at multiples of 1024 bytes, then rings and tile slots. Columns come in chunks
// of 64, of K the last ones in 16 or 32 where that is enough.
int storage_bytes(const ForwardSpec& spec) {
  const auto tile = [](int rows, int columns) { return (columns + 63) / 64 * rows * 128; };
  const auto k_tile = [](int rows, int columns) {
    const int last = columns % 64, chunks = columns / 64 * 128 + (last == 0 ? 0 : last <= 16 ? 32 : last <= 32 ? 64 : 128);
    return (rows * chunks + 1023) / 1024 * 1024;
  };
  int bytes = 0;
  const auto append = [&](int size, int alignment) { bytes = (bytes + alignment - 1) / alignment * alignment + size; };
  append(spec.q_buffers * tile(spec.block_m(), spec.head_dim), 1024);
  append(spec.stages * k_tile(spec.block_n, spec.head_dim), 1024);
  append(spec.stages * tile(spec.block_n, spec.head_dim_v), 1024);
  append(spec.output_stage == OutputStage::own ? tile(spec.block_m(), spec.head_dim_v) : 16, 1024);
  constexpr int kRingBytes = 2 * 8, kTileSlots = 2;
  append((spec.q_buffers + 2 * spec.stages + kTileSlots) * kRingBytes, 8);
  append(kTileSlots * 16, 16);
  return (bytes + 1023) / 1024 * 1024;
}

TEST(SharedLedger, AddsUpToTheStructOfTheKernel) {
  RandomSpecs random(1);
  for (int i = 0; i < 20'000; ++i) {
    const ForwardSpec spec = random.any();
    ASSERT_EQ(budget::shared_ledger(spec).total(), storage_bytes(spec)) << to_text(spec);
  }
}

TEST(SharedLedger, LeavesEveryBlockOfAMultiprocessorItsShare) {
  RandomSpecs random(2);
  for (int i = 0; i < 2'000; ++i) {
    const ForwardSpec spec = random.valid();
    const int bytes = budget::shared_ledger(spec).total();
    ASSERT_LE(bytes, 232'448) << to_text(spec);
    ASSERT_LE(spec.ctas_per_sm * (bytes + 1024), 233'472) << to_text(spec);
  }
}

TEST(SharedLedger, AllowsABlockAllThatHopperGivesOne) {
  ForwardSpec spec;
  EXPECT_EQ(budget::shared_bytes_allowed(spec), 232'448);
  spec.ctas_per_sm = 2;
  EXPECT_EQ(budget::shared_bytes_allowed(spec), 115'712);
}

TEST(RegisterLedger, CountsTheFragments) {
  ForwardSpec spec{.head_dim = 128, .head_dim_v = 96, .block_n = 112, .q_in_registers = true};
  const budget::RegisterLedger ledger = budget::register_ledger(spec);
  EXPECT_EQ(ledger.scores, 64 * 112 / 128);
  EXPECT_EQ(ledger.output, 64 * 96 / 128);
  EXPECT_EQ(ledger.probabilities, 64 * 112 / 128 / 2);
  EXPECT_EQ(ledger.query, 64 * 128 / 128 / 2);
  spec.q_in_registers = false;
  EXPECT_EQ(budget::register_ledger(spec).query, 0);
}

// ---------------------------------------------------------------------------------------------------------------------------- rules

using Change = std::function<void(ForwardSpec&)>;

// A change of the default spec for each rule, keyed by how the rule begins.
const std::map<std::string, Change>& rule_breakers() {
  static const std::map<std::string, Change> breakers = {
      {"head_dim must be", [](ForwardSpec& s) { s.head_dim = 24; }},
      {"head_dim_v must be", [](ForwardSpec& s) { s.head_dim_v = 272; }},
      {"consumer_warpgroups must be", [](ForwardSpec& s) { s.consumer_warpgroups = 4; }},
      {"block_n must be", [](ForwardSpec& s) { s.block_n = 8; }},
      {"stages must be", [](ForwardSpec& s) { s.stages = 5; }},
      {"q_buffers must be", [](ForwardSpec& s) { s.q_buffers = 3; }},
      {"ctas_per_sm must be", [](ForwardSpec& s) { s.ctas_per_sm = 5; }},
      {"cluster must be", [](ForwardSpec& s) { s.cluster = 3; }},
      {"cluster 2 pairs tiles of equal length",
       [](ForwardSpec& s) {
         s.cluster = 2;
         s.causal = true;
       }},
      {"cluster 2 needs a scheduler", [](ForwardSpec& s) { s.cluster = 2; }},
      {"cluster 2 needs ctas_per_sm 1",
       [](ForwardSpec& s) {
         s.cluster = 2;
         s.scheduler = Scheduler::static_persistent;
         s.ctas_per_sm = 2;
       }},
      {"ragged needs",
       [](ForwardSpec& s) {
         s.ragged = true;
         s.scheduler = Scheduler::static_persistent;
       }},
      {"local needs cluster 1",
       [](ForwardSpec& s) {
         s.local = true;
         s.cluster = 2;
         s.scheduler = Scheduler::static_persistent;
       }},
      {"turns need", [](ForwardSpec& s) { s.consumer_warpgroups = 1; }},
      {"output_stage q_buffer needs",
       [](ForwardSpec& s) {
         s.head_dim = 64;
         s.output_stage = OutputStage::q_buffer;
       }},
      {"the accumulators of one WGMMA",
       [](ForwardSpec& s) {
         s.head_dim_v = 256;
         s.consumer_warpgroups = 1;
         s.ctas_per_sm = 2;
         s.turns = Turns::none;
       }},
      {"the fragments do not fit", [](ForwardSpec& s) { s.consumer_warpgroups = 3; }},
      {"the tiles do not fit", [](ForwardSpec& s) { s.stages = 4; }},
  };
  return breakers;
}

std::set<std::string> rules_in_the_source() {
  std::string text;
  for (const EmbeddedSource& source : embedded_sources())
    if (source.path == std::string("attention/budget.hpp")) text = source.text;
  std::set<std::string> rules;
  const std::regex rule("return \"([^\"]+)\"");
  for (std::sregex_iterator match(text.begin(), text.end(), rule), end; match != end; ++match) rules.insert((*match)[1]);
  return rules;
}

TEST(BrokenRule, EveryRuleIsReachedByASpecThatBreaksIt) {
  std::set<std::string> reached;
  for (const auto& [beginning, change] : rule_breakers()) {
    ForwardSpec spec;
    ASSERT_EQ(budget::broken_rule(spec), nullptr);
    change(spec);
    const char* rule = budget::broken_rule(spec);
    ASSERT_NE(rule, nullptr) << beginning;
    EXPECT_THAT(rule, ::testing::StartsWith(beginning)) << to_text(spec);
    reached.insert(rule);
  }
  EXPECT_EQ(reached, rules_in_the_source()) << "a rule was added or changed: give it a spec that breaks it";
}

TEST(BrokenRule, HoldsForEveryShippedSpec) {
  for (const ForwardSpec& spec : testing::shipped_specs()) EXPECT_EQ(budget::broken_rule(spec), nullptr) << to_text(spec);
}

// ----------------------------------------------------------------------------------------------------------------------- the tuned table

ForwardProblem problem_of(const TunedLine& line) {
  return {.type = ElementType::bf16,
          .batch = 64,  // more tiles than multiprocessors
          .seqlen_q = line.seqlen_below > 0 ? line.seqlen_below - 1 : 1 << 16,
          .seqlen_k = 1 << 17,
          .num_heads = 4,
          .num_heads_kv = 4,
          .head_dim = line.head_dim,
          .head_dim_v = line.head_dim_v,
          .causal = line.spec.causal};
}

TEST(TunedTable, EveryLineObeysTheBudgetInBothTypes) {
  for (const TunedLine& line : kTunedForward)
    for (const DType type : {DType::fp16, DType::bf16}) {
      ForwardSpec spec = line.spec;
      spec.dtype = type;
      EXPECT_EQ(budget::broken_rule(spec), nullptr) << to_text(spec);
      EXPECT_GT(line.section_mb, 0);
      EXPECT_STRNE(line.reason, "");
    }
}

TEST(TunedTable, EveryLineIsReachedByTheProblemsItIsFor) {
  for (const TunedLine& line : kTunedForward) {
    const auto plan = plan_forward(problem_of(line), {});
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_TRUE(plan.value().tuned);
    EXPECT_THAT(plan.value().reason, ::testing::HasSubstr(line.reason)) << "head_dim " << line.head_dim << " below " << line.seqlen_below;
  }
}

}  // namespace
}  // namespace tandem
