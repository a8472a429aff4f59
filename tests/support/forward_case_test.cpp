#include "support/forward_case.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace tandem::testing {
namespace {

constexpr ElementType kTypes[] = {ElementType::fp16, ElementType::bf16, ElementType::fp32};

TEST(RandomCases, FollowFromTheSeed) {
  EXPECT_EQ(describe(random_case(7, kTypes, 1e9)), describe(random_case(7, kTypes, 1e9)));
  EXPECT_NE(describe(random_case(7, kTypes, 1e9)), describe(random_case(8, kTypes, 1e9)));
}

TEST(RandomCases, StayWithinTheirLimitAndAreLegal) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const ForwardCase c = random_case(seed, kTypes, 1e7);
    EXPECT_LE(flops_of(c.problem), 1e7) << describe(c);
    EXPECT_EQ(c.problem.num_heads % c.problem.num_heads_kv, 0) << describe(c);
    EXPECT_FALSE(is_expanded(c.out_layout)) << describe(c);
  }
}

TEST(RandomCases, ReachEveryKind) {
  std::set<Layout> layouts;
  std::set<std::int64_t> ratios, lengths;
  std::set<ElementType> types;
  int causal = 0, empty = 0, wide_value_heads = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const ForwardCase c = random_case(seed, kTypes, 2e9);
    layouts.insert(c.k_layout);
    ratios.insert(c.problem.num_heads / c.problem.num_heads_kv);
    lengths.insert(c.problem.seqlen_k);
    types.insert(c.problem.type);
    causal += c.problem.causal;
    empty += c.problem.batch == 0 || c.problem.seqlen_q == 0 || c.problem.seqlen_k == 0;
    wide_value_heads += c.problem.head_dim != c.problem.head_dim_v;
  }
  EXPECT_EQ(layouts.size(), all_layouts().size());
  for (const std::int64_t ratio : {1, 5, 7, 48, 71}) EXPECT_TRUE(ratios.contains(ratio)) << ratio;
  for (const std::int64_t length : {0, 1, 11, 99, 127, 128, 129, 255, 1763}) EXPECT_TRUE(lengths.contains(length)) << length;
  EXPECT_EQ(types.size(), 3u);
  EXPECT_GT(causal, 300);
  EXPECT_GT(empty, 10);
  EXPECT_GT(wide_value_heads, 30);
}

TEST(RandomMaskedCases, FollowFromTheSeedStayWithinTheirLimitAndReachEveryKind) {
  EXPECT_EQ(describe(random_masked_case(7, kTypes, 1e9)), describe(random_masked_case(7, kTypes, 1e9)));
  int packed_q = 0, packed_k = 0, used = 0, windows = 0, chunks = 0, softcap = 0, sinks = 0, empty = 0, none = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const ForwardCase c = random_masked_case(seed, kTypes, 1e7);
    const ForwardProblem& p = c.problem;
    EXPECT_LE(flops_of(c), 1e7) << describe(c);
    EXPECT_EQ(p.num_heads % p.num_heads_kv, 0) << describe(c);
    EXPECT_EQ(describe(c).find('\n'), std::string::npos);
    packed_q += p.packed_q;
    packed_k += p.packed_k;
    used += p.used_q || p.used_k;
    windows += p.window_left >= 0 || p.window_right >= 0;
    chunks += p.attention_chunk > 0;
    softcap += p.softcap;
    sinks += p.sinks;
    none += p.batch == 0;
    const Sequences sequences(c);
    empty += std::any_of(sequences.all().begin(), sequences.all().end(), [](const Sequence& s) { return s.seqlen_q == 0 || s.seqlen_k == 0; });
  }
  for (const int count : {packed_q, packed_k, used, windows, chunks, softcap, sinks, empty}) EXPECT_GT(count, 100);
  EXPECT_GT(none, 5);
}

}  // namespace
}  // namespace tandem::testing
