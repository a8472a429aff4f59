// A spec as text and back; names, hashes and equality.
#include "plan/spec_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "specs.hpp"

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::RandomSpecs;

std::string refusal(std::string_view text) {
  const auto spec = parse_spec(text, ForwardSpec{});
  EXPECT_FALSE(spec.ok()) << text;
  EXPECT_EQ(spec.status().code(), StatusCode::invalid_argument);
  return spec.status().message();
}

TEST(SpecText, ComesBackFromItsText) {
  RandomSpecs random(3);
  for (int i = 0; i < 3'000; ++i) {
    const ForwardSpec spec = random.valid();
    const auto read = parse_spec(to_text(spec), ForwardSpec{});
    ASSERT_TRUE(read.ok()) << read.status().message();
    ASSERT_EQ(read.value(), spec) << to_text(spec);
  }
}

TEST(SpecText, SetsOnlyTheNamedFields) {
  ForwardSpec expected;
  expected.block_n = 144;
  expected.turns = Turns::none;
  const auto spec = parse_spec("block_n=144,turns=none", ForwardSpec{});
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  EXPECT_EQ(spec.value(), expected);
  EXPECT_EQ(parse_spec("", expected).value(), expected);
}

TEST(SpecText, RefusesAnUnknownFieldAndNamesTheKnownOnes) {
  EXPECT_THAT(refusal("blok_n=128"), AllOf(HasSubstr("'blok_n'"), HasSubstr("block_n"), HasSubstr("scheduler"), HasSubstr("dtype")));
  EXPECT_THAT(refusal("=128"), HasSubstr("''"));
}

TEST(SpecText, RefusesAValueAndSaysWhatIsAccepted) {
  EXPECT_THAT(refusal("block_n=wide"), AllOf(HasSubstr("block_n"), HasSubstr("'wide'"), HasSubstr("an integer")));
  EXPECT_THAT(refusal("block_n=128x"), HasSubstr("'128x'"));
  EXPECT_THAT(refusal("block_n="), HasSubstr("''"));
  EXPECT_THAT(refusal("block_n= 128"), HasSubstr("' 128'"));
  EXPECT_THAT(refusal("block_n=99999999999"), HasSubstr("'99999999999'"));
  EXPECT_THAT(refusal("causal=yes"), AllOf(HasSubstr("causal"), HasSubstr("'yes'"), HasSubstr("true or false")));
  EXPECT_THAT(refusal("turns=often"), AllOf(HasSubstr("turns"), HasSubstr("'often'"), HasSubstr("none, gemm_issue, exp_section")));
  EXPECT_THAT(refusal("dtype=fp64"), AllOf(HasSubstr("dtype"), HasSubstr("'fp64'"), HasSubstr("fp16, bf16")));
}

TEST(SpecText, RefusesAnItemThatIsNoAssignment) {
  EXPECT_THAT(refusal("block_n"), AllOf(HasSubstr("'block_n'"), HasSubstr("field=value")));
  EXPECT_THAT(refusal("block_n=128,,stages=2"), HasSubstr("''"));
}

TEST(SpecText, RefusesASpecThatBreaksARuleAndQuotesTheRule) {
  EXPECT_THAT(refusal("stages=7"), AllOf(HasSubstr("stages=7"), HasSubstr(budget::broken_rule(ForwardSpec{.stages = 7}))));
  EXPECT_THAT(refusal("stages=-1"), HasSubstr("stages=-1"));
}

TEST(SpecText, LeavesTheFirstComplaintStanding) { EXPECT_THAT(refusal("turns=often,block_n=wide"), HasSubstr("'often'")); }

TEST(SpecJson, HoldsEveryFieldOfTheText) {
  RandomSpecs random(4);
  for (int i = 0; i < 100; ++i) {
    const ForwardSpec spec = random.valid();
    std::string text;
    const nlohmann::json json = to_json(spec);
    for (std::string rest = to_text(spec); !rest.empty();) {
      const std::string item = rest.substr(0, rest.find(','));
      rest = item.size() == rest.size() ? "" : rest.substr(item.size() + 1);
      const std::string field = item.substr(0, item.find('=')), value = item.substr(item.find('=') + 1);
      ASSERT_TRUE(json.contains(field)) << field;
      const nlohmann::json& held = json[field];
      EXPECT_EQ(held.is_string() ? held.get<std::string>() : held.dump(), value) << field;
    }
  }
}

// Specs that differ from the default in one field each, for every field and several values.
std::vector<ForwardSpec> neighbours() {
  std::vector<ForwardSpec> specs;
  const auto vary = [&](auto ForwardSpec::*field, auto... values) {
    for (const auto value : {values...}) {
      ForwardSpec spec;
      if (spec.*field == value) continue;
      spec.*field = value;
      specs.push_back(spec);
    }
  };
  vary(&ForwardSpec::dtype, DType::fp16, DType::bf16);
  vary(&ForwardSpec::head_dim, 64, 192, 256);
  vary(&ForwardSpec::head_dim_v, 64, 192, 256);
  vary(&ForwardSpec::causal, false, true);
  vary(&ForwardSpec::consumer_warpgroups, 1, 2, 3);
  vary(&ForwardSpec::block_n, 64, 80, 176);
  vary(&ForwardSpec::stages, 1, 2, 3);
  vary(&ForwardSpec::q_buffers, 1, 2);
  vary(&ForwardSpec::ctas_per_sm, 1, 2, 3, 4);
  vary(&ForwardSpec::cluster, 1, 2);
  vary(&ForwardSpec::overlap, false, true);
  vary(&ForwardSpec::q_in_registers, false, true);
  vary(&ForwardSpec::lazy_rescale, false, true);
  vary(&ForwardSpec::turns, Turns::none, Turns::gemm_issue, Turns::exp_section);
  vary(&ForwardSpec::output_stage, OutputStage::registers, OutputStage::q_buffer, OutputStage::own);
  vary(&ForwardSpec::scheduler, Scheduler::single_tile, Scheduler::static_persistent, Scheduler::dynamic_persistent);
  return specs;
}

TEST(SpecIdentity, EveryFieldCountsInEqualityTextNameHashAndSource) {
  const ForwardSpec base;
  for (const ForwardSpec& spec : neighbours()) {
    EXPECT_NE(spec, base) << to_text(spec);
    EXPECT_NE(to_text(spec), to_text(base));
    EXPECT_NE(name_of(spec), name_of(base)) << to_text(spec);
    EXPECT_NE(hash_of(spec), hash_of(base)) << to_text(spec);
    EXPECT_NE(to_initializer(spec), to_initializer(base)) << to_text(spec);
  }
}

TEST(SpecIdentity, NamesAndHashesTellRandomSpecsApart) {
  RandomSpecs random(5);
  std::map<std::string, ForwardSpec> by_name;
  std::map<std::size_t, ForwardSpec> by_hash;
  for (int i = 0; i < 20'000; ++i) {
    const ForwardSpec spec = random.any();
    EXPECT_EQ(by_name.emplace(name_of(spec), spec).first->second, spec) << name_of(spec);
    EXPECT_EQ(by_hash.emplace(hash_of(spec), spec).first->second, spec) << to_text(spec);
  }
}

TEST(SpecIdentity, EqualSpecsHashAlike) {
  RandomSpecs random(6);
  for (int i = 0; i < 100; ++i) {
    const ForwardSpec spec = random.any(), copy = spec;
    EXPECT_EQ(spec, copy);
    EXPECT_EQ(hash_of(spec), hash_of(copy));
  }
}

TEST(SpecName, IsAFileNameWithoutSurprises) {
  RandomSpecs random(8);
  for (int i = 0; i < 1'000; ++i) {
    const std::string name = name_of(random.any());
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), std::string::npos) << name;
    EXPECT_LT(name.size(), 200u);
  }
  EXPECT_THAT(name_of(ForwardSpec{.head_dim = 192, .head_dim_v = 128, .causal = true}), ::testing::StartsWith("forward_bf16_d192v128_causal_m128n128"));
}

TEST(ShippedSpecs, HaveNamesOfTheirOwnAndCoverBothTypesAndMasks) {
  std::set<std::string> names;
  std::map<std::pair<DType, bool>, int> kinds;
  for (const ForwardSpec& spec : testing::shipped_specs()) {
    EXPECT_TRUE(names.insert(name_of(spec)).second) << name_of(spec) << " ships twice";
    ++kinds[{spec.dtype, spec.causal}];
  }
  ASSERT_EQ(kinds.size(), 4u);
  for (const auto& [kind, count] : kinds) EXPECT_GT(count, 0);
}

}  // namespace
}  // namespace tandem
