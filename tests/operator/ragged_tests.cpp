// Contract 4 and 6: sequences of every length in one call, and what lies between and behind them.
#include <algorithm>
#include <functional>
#include <limits>

#include "operator/operator_tests.hpp"
#include "support/random.hpp"

namespace tandem::testing {
namespace {

using Lengths = std::vector<std::int32_t>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Heads {
  std::int64_t num_heads = 2, num_heads_kv = 1, head_dim = 64, head_dim_v = 64;
  bool causal = false;
};

ForwardProblem shape_of(ElementType type, const Heads& h) {
  return make_problem(type, {.num_heads = h.num_heads, .num_heads_kv = h.num_heads_kv, .head_dim = h.head_dim, .head_dim_v = h.head_dim_v, .causal = h.causal});
}

// Both sides packed.
ForwardCase packed(ElementType type, const Lengths& q, const Lengths& k, const Heads& heads = {}) {
  ForwardCase c;
  c.problem = shape_of(type, heads);
  c.softmax_scale = usual_scale(heads.head_dim);
  pack_q(c, cumulated(q));
  pack_k(c, cumulated(k));
  return c;
}

// Both sides padded, with used lengths.
ForwardCase padded(ElementType type, std::int64_t seqlen_q, std::int64_t seqlen_k, const Lengths& q, const Lengths& k, const Heads& heads = {}) {
  ForwardCase c;
  c.problem = shape_of(type, heads);
  c.problem.batch = std::ssize(q);
  c.problem.seqlen_q = seqlen_q;
  c.problem.seqlen_k = seqlen_k;
  c.softmax_scale = usual_scale(heads.head_dim);
  use_q(c, q);
  use_k(c, k);
  return c;
}

const Lengths kLengthsQ{1, 130, 0, 65, 7}, kLengthsK{99, 130, 11, 0, 257};

TEST_P(OperatorTest, PackedSequencesSeeTheirOwnKeysAlone) {
  for (const ElementType type : types()) {
    for (const bool causal : {false, true}) {
      for (const std::int64_t head_dim : {64, 80, 128, 256})
        expect_right(packed(type, kLengthsQ, kLengthsK, {.num_heads = 4, .num_heads_kv = 2, .head_dim = head_dim, .head_dim_v = head_dim, .causal = causal}));
    }
  }
}

TEST_P(OperatorTest, EitherSideMayBePackedWithoutTheOther) {
  for (const ElementType type : types()) {
    for (const bool packed_q : {false, true}) {
      for (const bool used : {false, true}) {
        for (const bool causal : {false, true}) {
          ForwardCase c;
          c.problem = shape_of(type, {.causal = causal});
          c.softmax_scale = usual_scale(64);
          c.problem.batch = std::ssize(kLengthsQ);
          if (packed_q) {
            pack_q(c, cumulated(kLengthsQ));
            c.problem.seqlen_k = 257;
            if (used) use_k(c, kLengthsK);
          } else {
            pack_k(c, cumulated(kLengthsK));
            c.problem.seqlen_q = 130;
            if (used) use_q(c, kLengthsQ);
          }
          expect_right(c);
        }
      }
    }
  }
}

TEST_P(OperatorTest, UsedLengthsOfPaddedTensors) {
  for (const ElementType type : types()) {
    for (const bool causal : {false, true}) {
      expect_right(padded(type, 130, 300, kLengthsQ, kLengthsK, {.causal = causal}));
      ForwardCase keys_alone = padded(type, 70, 300, kLengthsQ, kLengthsK, {.causal = causal});
      keys_alone.problem.used_q = false;
      keys_alone.seqused_q.clear();
      expect_right(keys_alone);
      ForwardCase queries_alone = padded(type, 130, 99, kLengthsQ, kLengthsK, {.causal = causal});
      queries_alone.problem.used_k = false;
      queries_alone.seqused_k.clear();
      expect_right(queries_alone);
    }
  }
}

TEST_P(OperatorTest, BC24_OneQueryASequenceOnKeysOfACache) {
  // NaN follows the used keys of each entry.
  for (const ElementType type : types()) {
    ForwardCase c;
    c.problem = make_problem(type, {.batch = 4, .seqlen_q = 1, .seqlen_k = 128, .num_heads = 8});
    use_k(c, {32, 64, 96, 48});
    expect_right(c);
    pack_q(c, {0, 1, 2, 3, 4});
    expect_right(c);
  }
}

TEST_P(OperatorTest, BC29_WhatLiesBehindTheSequencesChangesNoBit) {
  for (const ElementType type : types()) {
    ForwardCase c = packed(type, {21}, {21}, {.num_heads = 16, .head_dim = 128, .head_dim_v = 128, .causal = true});
    c.problem.seqlen_q = c.problem.seqlen_k = 24;
    const ForwardInputs nan = make_inputs(c);
    ForwardInputs zero = make_inputs(c);
    for (HostTensor* const tensor : {&zero.q, &zero.k, &zero.v}) {
      Values values = tensor->values();
      std::fill(values.data.begin() + static_cast<std::ptrdiff_t>(values.index(0, 21, 0, 0)), values.data.end(), 0.0f);
      tensor->set(values);
    }
    const auto a = expect_right(c, nan), b = run(c, zero);
    if (a != nullptr && b != nullptr) {
      EXPECT_TRUE(same_bits(c, *a, *b));
    }
  }
}

TEST_P(OperatorTest, UsedLengthsOfPackedSequences) {
  for (const ElementType type : types()) {
    for (const bool causal : {false, true}) {
      ForwardCase c = packed(type, kLengthsQ, kLengthsK, {.causal = causal});
      use_q(c, {1, 67, 0, 0, 5});
      use_k(c, {33, 130, 0, 0, 129});
      expect_right(c);
    }
  }
}

TEST_P(OperatorTest, MasksSoftcapAndSinksOfEverySequence) {
  for (const ElementType type : types()) {
    for (const std::int64_t chunk : {0, 50}) {
      for (const bool causal : {false, true}) {
        ForwardCase c = packed(type, kLengthsQ, kLengthsK, {.causal = causal});
        c.problem.window_left = 40;
        if (!causal) c.problem.window_right = 5;
        c.problem.attention_chunk = chunk;
        set_sinks(c, {0.5f, -1.0f});
        expect_right(c);
        set_softcap(c, 5.0f);
        expect_right(c);
      }
    }
  }
}

TEST_P(OperatorTest, BC07_EmptySequencesLeaveTheirNeighboursAlone) {
  for (const ElementType type : types()) {
    for (const bool causal : {false, true}) {
      const Heads heads{.causal = causal};
      expect_right(packed(type, {0, 0, 130}, {0, 1, 200}, heads));  // BC-04
      expect_right(packed(type, {5, 70}, {0, 70}, heads));
      expect_right(packed(type, {70, 5, 70}, {70, 0, 70}, heads));
      expect_right(packed(type, {70, 0, 70}, {70, 9, 70}, heads));
      expect_right(packed(type, {0, 70, 0, 0}, {0, 70, 0, 3}, heads));
      expect_right(packed(type, {1, 127, 0, 65}, {1, 127, 0, 65}, heads));  // BC-09
    }
  }
}

TEST_P(OperatorTest, Contract4_BatchesOfNothing) {
  for (const ElementType type : types()) {
    for (const bool causal : {false, true}) {
      const Heads heads{.causal = causal};
      expect_right(packed(type, {}, {}, heads));            // no sequence
      expect_right(packed(type, {0}, {0}, heads));          // no token
      expect_right(packed(type, {0, 0}, {5, 3}, heads));    // no query
      expect_right(packed(type, {130, 3}, {0, 0}, heads));  // no key
      expect_right(padded(type, 5, 7, {}, {}, heads));
      expect_right(padded(type, 70, 70, {0, 0}, {0, 0}, heads));
      expect_right(padded(type, 0, 70, {0, 0}, {70, 3}, heads));
      expect_right(padded(type, 70, 0, {70, 3}, {0, 0}, heads));
    }
  }
}

TEST_P(OperatorTest, Contract6_RowsThatNoSequenceHasAreZero) {
  for (const ElementType type : types()) {
    for (const bool sinks : {false, true}) {
      // Before the first sequence, behind the used part of each, behind the last; of no sequence at all.
      ForwardCase some = packed(type, {70, 5, 130}, {70, 9, 130});
      some.cu_seqlens_q = {9, 79, 84, 214};
      some.cu_seqlens_k = {3, 73, 82, 212};
      some.problem.seqlen_q = 400;
      some.problem.seqlen_k = 300;
      use_q(some, {65, 0, 129});
      ForwardCase none = packed(type, {}, {});
      none.problem.seqlen_q = 200;
      none.problem.seqlen_k = 10;
      for (ForwardCase& c : {std::ref(some), std::ref(none)}) {
        if (sinks) set_sinks(c, {3.0f, -1.0f});
        const auto result = expect_right(c);
        if (result == nullptr) continue;
        const Sequences sequences(c);
        for (const Row& row : every_row(c.problem)) {
          if (sequences.of(row.batch, row.query) != nullptr) continue;
          for (std::int64_t d = 0; d < 64; ++d) ASSERT_EQ(result->out.at(0, row.query, row.head, d), 0.0f) << describe(c) << " row " << row.query;
          ASSERT_EQ(result->lse_at(c.problem, 0, row.head, row.query), -kInfinity) << describe(c) << " row " << row.query;
        }
      }
    }
  }
}

TEST_P(OperatorTest, ARaggedBatchIsItsSequencesOneByOne) {
  for (const ElementType type : types()) {
    for (const bool causal : {false, true}) {
      const Lengths lengths_q{130, 1, 77}, lengths_k{200, 63, 77};
      const ForwardCase c = packed(type, lengths_q, lengths_k, {.causal = causal});
      const ForwardInputs inputs = make_inputs(c);
      const auto together = run(c, inputs);
      if (together == nullptr) continue;
      const Values q = inputs.q.values(), k = inputs.k.values(), v = inputs.v.values();
      const Sequences sequences(c);
      for (const Sequence& s : sequences.all()) {
        const ForwardCase alone =
            usual(make_problem(type, {.seqlen_q = s.seqlen_q, .seqlen_k = s.seqlen_k, .num_heads = 2, .num_heads_kv = 1, .causal = causal}));
        const auto part = [](ElementType t, const Values& all, std::int64_t begin, std::int64_t length) {
          Values some({1, length, all.shape[2], all.shape[3]});
          std::copy_n(all.row(0, begin, 0), some.data.size(), some.data.begin());
          HostTensor tensor(t, some.shape, Layout::bshd);
          tensor.set(some);
          return tensor;
        };
        const ForwardInputs own{part(type, q, s.q_begin, s.seqlen_q), part(type, k, s.k_begin, s.seqlen_k), part(type, v, s.k_begin, s.seqlen_k)};
        const auto result = run(alone, own);
        ASSERT_NE(result, nullptr);
        const float rounding = type == ElementType::bf16 ? 1.6e-2f : type == ElementType::fp16 ? 2e-3f : 1e-5f;
        for (const Row& row : every_row(alone.problem)) {
          for (std::int64_t d = 0; d < 64; ++d)
            ASSERT_NEAR(result->out.at(0, row.query, row.head, d), together->out.at(0, s.q_begin + row.query, row.head, d), rounding) << describe(c);
          ASSERT_NEAR(result->lse_at(alone.problem, 0, row.head, row.query), together->lse_at(c.problem, 0, row.head, s.q_begin + row.query), 1e-4f)
              << describe(c);
        }
      }
    }
  }
}

// Rows of sequence `s` of one result and of sequence `t` of another have the same bits.
void expect_same_rows(const ForwardCase& a, const ForwardResult& ra, const Sequence& s, const ForwardCase& b, const ForwardResult& rb, const Sequence& t) {
  ASSERT_EQ(s.seqlen_q, t.seqlen_q);
  for (std::int64_t i = 0; i < s.seqlen_q; ++i) {
    for (std::int64_t h = 0; h < a.problem.num_heads; ++h) {
      for (std::int64_t d = 0; d < a.problem.head_dim_v; ++d)
        ASSERT_EQ(ra.out.at(s.q_batch, s.q_begin + i, h, d), rb.out.at(t.q_batch, t.q_begin + i, h, d))
            << describe(a) << " and " << describe(b) << " query " << i;
      ASSERT_EQ(ra.lse_at(a.problem, s.q_batch, h, s.q_begin + i), rb.lse_at(b.problem, t.q_batch, h, t.q_begin + i))
          << describe(a) << " and " << describe(b) << " query " << i;
    }
  }
}

TEST_P(OperatorTest, BatchInvariantBitsAreThoseOfASequenceAlone) {
  for (const ElementType type : types()) {
    for (const auto& [causal, softcap] : {std::pair{false, 0.0f}, {true, 0.0f}, {false, 6.0f}, {true, 6.0f}}) {
      ForwardCase batch = packed(type, {70, 130, 0, 1, 33}, {99, 200, 11, 257, 33}, {.causal = causal});
      ForwardCase alone = packed(type, {130}, {200}, {.causal = causal});
      set_softcap(batch, softcap);
      set_softcap(alone, softcap);
      batch.problem.batch_invariant = alone.problem.batch_invariant = true;
      const ForwardInputs inputs = make_inputs(batch);
      ForwardInputs own = make_inputs(alone);
      const auto part = [](const Values& all, std::int64_t begin, std::int64_t length) {
        Values some({1, length, all.shape[2], all.shape[3]});
        std::copy_n(all.row(0, begin, 0), some.data.size(), some.data.begin());
        return some;
      };
      own.q.set(part(inputs.q.values(), 70, 130));
      own.k.set(part(inputs.k.values(), 99, 200));
      own.v.set(part(inputs.v.values(), 99, 200));
      const auto together = run(batch, inputs);
      const auto single = run(alone, own);
      if (together == nullptr || single == nullptr) continue;
      expect_same_rows(batch, *together, Sequences(batch).all()[1], alone, *single, Sequences(alone).all()[0]);
    }
  }
}

TEST_P(OperatorTest, TheExpectedLengthIsNoBound) {
  for (const ElementType type : types()) {
    for (const std::int64_t expected : {1, 64, 1'000'000}) {
      ForwardCase c = packed(type, kLengthsQ, kLengthsK, {.causal = true});
      c.problem.longest_q = std::min(expected, c.problem.seqlen_q);
      c.problem.longest_k = std::min(expected, c.problem.seqlen_k);
      expect_right(c);
    }
  }
}

// Whatever the arrays hold, nothing outside the output is written and the call returns.
TEST_P(OperatorTest, LengthsThatContradictTheTensorsAreCutToThem) {
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max(), kLeast = std::numeric_limits<std::int32_t>::min();
  const Lengths kWrong[] = {{0, 500, 700}, {0, -5, 90}, {50, 20, 90}, {kLeast, kMost, 0}, {kMost, kMost, kMost}, {kLeast, kLeast, kLeast}, {0, kMost, kLeast}};
  const Lengths kWrongUsed[] = {{-1, 1000}, {kMost, kLeast}, {kLeast, kMost}};
  for (const ElementType type : types()) {
    const ForwardCase right = packed(type, {40, 50}, {40, 50}, {.causal = true});
    const ForwardInputs inputs = make_inputs(right);
    for (const Lengths& wrong : kWrong) {
      for (const int side : {1, 2, 3}) {
        if ((side & 1) != 0 && !limits().sequences_may_overlap && !std::is_sorted(wrong.begin(), wrong.end())) continue;
        ForwardCase c = right;
        if ((side & 1) != 0) c.cu_seqlens_q = wrong;
        if ((side & 2) != 0) c.cu_seqlens_k = wrong;
        run(c, inputs);  // looks for damage
      }
    }
    for (const Lengths& wrong : kWrongUsed) {
      ForwardCase c = right;
      use_q(c, wrong);
      use_k(c, wrong);
      run(c, inputs);
      // Of padded tensors the cut is what anybody would expect.
      ForwardCase cut = padded(type, 70, 90, {}, {});
      cut.problem.batch = 2;
      use_q(cut, {70, 33});
      Lengths keys;
      for (const std::int32_t length : wrong) keys.push_back(std::clamp(length, 0, 90));
      use_k(cut, keys);
      ForwardCase uncut = cut;
      use_k(uncut, wrong);
      const ForwardInputs padded_inputs = make_inputs(cut);
      const auto a = run(cut, padded_inputs), b = run(uncut, padded_inputs);
      if (a != nullptr && b != nullptr) {
        EXPECT_TRUE(same_bits(uncut, *a, *b));
      }
    }
  }
}

TEST_P(OperatorTest, BC74_ManySequences) {
  for (const ElementType type : types()) {
    for (const std::int64_t batch : {31, 32, 33, 255, 257, 991, 1025, 4097}) {
      if (batch * 2 > limits().max_tiles) continue;
      Random random(static_cast<std::uint64_t>(batch));
      Lengths q, k;
      for (std::int64_t i = 0; i < batch; ++i) {
        q.push_back(static_cast<std::int32_t>(random.below(4)));
        k.push_back(static_cast<std::int32_t>(random.below(20)));
      }
      expect_right(packed(type, q, k, {.num_heads = 1}));
    }
  }
}

TEST_P(OperatorTest, OneLongSequenceAmongShortOnes) {
  for (const ElementType type : types()) {
    const bool small = limits().max_flops < 1e8;
    const std::int32_t longest = small ? 300 : 1763;
    for (const bool causal : {false, true}) expect_right(packed(type, {1, 1, longest, 1, 5}, {64, 1, longest, 300, 5}, {.causal = causal}));
  }
}

TEST_P(OperatorTest, PackedTokensInEveryLayout) {
  for (const ElementType type : types()) {
    for (const Layout layout : all_layouts()) {
      if (layout == Layout::expanded_sequence || layout == Layout::expanded_batch) continue;
      ForwardCase c = packed(type, {70, 0, 33}, {99, 5, 33}, {.causal = true});
      c.problem.seqlen_q += 5;
      c.q_layout = c.k_layout = c.v_layout = layout;
      c.out_layout = is_expanded(layout) ? Layout::bshd : layout;
      c.lse = LseOutput::padded;
      expect_right(c);
    }
  }
}

TEST_P(OperatorTest, WideValuesOfPackedSequences) {
  for (const ElementType type : types())
    for (const std::int64_t head_dim_v : {256, 512}) expect_right(packed(type, kLengthsQ, kLengthsK, {.head_dim_v = head_dim_v, .causal = true}));
}

TEST_P(OperatorTest, RepeatedRaggedRunsGiveTheSameBits) {
  for (const ElementType type : types()) {
    const ForwardCase c = packed(type, kLengthsQ, kLengthsK, {.causal = true});
    const ForwardInputs inputs = make_inputs(c);
    PreparedForward forward(backend(), device(), c, inputs, place(c.out_layout, out_shape(c.problem)));
    const Status status = forward.run();
    if (refused(c, status, forward.refused())) continue;
    ASSERT_TRUE(status.ok()) << status.message();
    const ForwardResult first = forward.result();
    for (int i = 1; i < limits().repeats; ++i) {
      forward.clear_outputs();
      ASSERT_TRUE(forward.run().ok());
      ASSERT_TRUE(same_bits(c, first, forward.result())) << "run " << i;
    }
  }
}

}  // namespace
}  // namespace tandem::testing
