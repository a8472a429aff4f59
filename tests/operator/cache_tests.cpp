// Contract 6: bytes outside the problem never matter. (Every run surrounds its tensors with NaN; here the surroundings vary.)
#include "operator/operator_tests.hpp"

namespace tandem::testing {
namespace {

// The first rows of a cache that is `capacity` long and holds `garbage` behind them.
HostTensor prefix_of_cache(ElementType type, const Shape& shape, std::int64_t capacity, float garbage, const Values& values) {
  const std::int64_t token = shape[2] * shape[3];
  const Shape whole{shape[0], capacity, shape[2], shape[3]};
  HostTensor cache(type, whole, Layout::bshd);
  cache.set(Values(whole, garbage));
  HostTensor prefix(type, shape, Placement{shape[0] * capacity * token, 0, {capacity * token, token, shape[3], 1}});
  prefix.bytes() = cache.bytes();
  prefix.set(values);
  return prefix;
}

TEST_P(OperatorTest, BC24_WhatLiesBehindTheKeysChangesNoBit) {
  for (const ElementType type : types()) {
    for (const std::int64_t seqlen_k : {32, 48, 64, 96, 127}) {
      const ForwardCase c = usual(make_problem(type, {.batch = 2, .seqlen_q = 1, .seqlen_k = seqlen_k, .num_heads = 8, .num_heads_kv = 2}));
      const ForwardInputs plain = make_inputs(c);
      const auto expected = expect_right(c, plain);
      for (const float garbage : {0.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e4f}) {
        const ForwardInputs inputs{plain.q, prefix_of_cache(type, k_shape(c.problem), 128, garbage, plain.k.values()),
                                   prefix_of_cache(type, v_shape(c.problem), 128, garbage, plain.v.values())};
        const auto result = run(c, inputs);
        if (result != nullptr && expected != nullptr) {
          EXPECT_TRUE(same_bits(c, *result, *expected)) << "behind the keys: " << garbage;
        }
      }
    }
  }
}

TEST_P(OperatorTest, BC29_NanBehindQueriesKeysAndValuesDoesNotReachTheRowsBefore) {
  for (const ElementType type : types()) {
    ForwardCase c = usual(make_problem(type, {.seqlen_q = 21, .seqlen_k = 21, .num_heads = 16, .num_heads_kv = 1, .head_dim = 128}));
    for (const bool causal : {false, true}) {
      c.problem.causal = causal;
      const ForwardInputs plain = make_inputs(c);
      const auto expected = expect_right(c, plain);
      const float nan = std::numeric_limits<float>::quiet_NaN();
      const ForwardInputs inputs{prefix_of_cache(type, q_shape(c.problem), 24, nan, plain.q.values()),
                                 prefix_of_cache(type, k_shape(c.problem), 24, nan, plain.k.values()),
                                 prefix_of_cache(type, v_shape(c.problem), 24, nan, plain.v.values())};
      const auto result = run(c, inputs);
      if (result != nullptr && expected != nullptr) {
        EXPECT_TRUE(same_bits(c, *result, *expected));
      }
    }
  }
}

TEST_P(OperatorTest, BC66_TheCapacityOfACacheChangesNoBit) {
  for (const ElementType type : types()) {
    const ForwardCase c = usual(make_problem(type, {.seqlen_q = 1, .seqlen_k = 200, .num_heads = 4, .num_heads_kv = 1}));
    const ForwardInputs plain = make_inputs(c);
    const auto expected = expect_right(c, plain);
    for (const std::int64_t capacity : {200, 256, 1000, 5000}) {
      const ForwardInputs inputs{plain.q, prefix_of_cache(type, k_shape(c.problem), capacity, 1.0f, plain.k.values()),
                                 prefix_of_cache(type, v_shape(c.problem), capacity, 1.0f, plain.v.values())};
      const auto result = run(c, inputs);
      if (result != nullptr && expected != nullptr) {
        EXPECT_TRUE(same_bits(c, *result, *expected)) << "capacity " << capacity;
      }
    }
  }
}

}  // namespace
}  // namespace tandem::testing
