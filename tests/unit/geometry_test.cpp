// The launch of a forward and the kernel's own walk over it: kernels/attention/scheduler.cuh, seqlens.cuh and mask.cuh run here on the host
// over the geometry that the planner makes. Every (query tile, head, batch entry) must be computed exactly once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "attention/mask.cuh"
#include "attention/scheduler.cuh"
#include "plan/launch.hpp"

namespace tandem {
namespace {

using attention::Mask;
using attention::Seqlens;
using attention::TileInfo;
using attention::TileScheduler;
using ptx::place;

constexpr std::int64_t kSection = 32ll << 20;

ForwardProblem problem(std::int64_t batch, std::int64_t seqlen_q, std::int64_t seqlen_k, std::int64_t heads, std::int64_t heads_kv, bool causal,
                       std::int64_t head_dim = 128) {
  ForwardProblem problem;
  problem.batch = batch;
  problem.seqlen_q = seqlen_q;
  problem.seqlen_k = seqlen_k;
  problem.num_heads = heads;
  problem.num_heads_kv = heads_kv;
  problem.head_dim = problem.head_dim_v = head_dim;
  problem.causal = causal;
  return problem;
}

ForwardParams params_of(const LaunchGeometry& geometry, const ForwardProblem& problem, u64& counter) {
  ForwardCall call;
  return make_params(geometry, problem, call, &counter);
}

// The tiles that each block of a launch computes, in order. Blocks that count dynamically take turns in an order drawn at random, as the
// hardware may let them.
template <ForwardSpec kSpec>
struct Launch {
  LaunchGeometry geometry;
  std::vector<std::vector<TileInfo>> of_block;
  u64 counter_after = 0;

  Launch(const ForwardProblem& problem, int multiprocessors, std::int64_t section_bytes, u64 counter, std::uint64_t seed = 1)
      : geometry(make_geometry(kSpec, problem, multiprocessors, section_bytes)), of_block(static_cast<std::size_t>(geometry.grid)) {
    const ForwardParams params = params_of(geometry, problem, counter);
    std::vector<TileScheduler<kSpec>> schedulers;
    std::vector<std::size_t> running;
    for (int block = 0; block < geometry.grid; ++block) {
      stand_in(block);
      schedulers.emplace_back(params);
      running.push_back(static_cast<std::size_t>(block));
    }
    std::mt19937_64 engine(seed);
    while (!running.empty()) {
      std::size_t& block = running[engine() % running.size()];
      TileScheduler<kSpec>& scheduler = schedulers[block];
      stand_in(static_cast<int>(block));
      if (scheduler.done()) {
        std::swap(block, running.back());
        running.pop_back();
        continue;
      }
      of_block[block].push_back(scheduler.current());
      scheduler.request_next();
      scheduler.advance();
    }
    counter_after = counter;
  }

  std::vector<TileInfo> all() const {
    std::vector<TileInfo> tiles;
    for (const auto& block : of_block) tiles.insert(tiles.end(), block.begin(), block.end());
    return tiles;
  }

 private:
  void stand_in(int block) const { place = {.block = block, .grid = geometry.grid, .cluster_rank = block % kSpec.cluster, .thread = 0}; }
};

template <ForwardSpec kSpec>
void expect_each_tile_once(const ForwardProblem& problem, const std::vector<TileInfo>& tiles) {
  std::set<std::tuple<int, int, int>> seen;
  const std::int64_t per_head = (problem.seqlen_q + kSpec.block_m() - 1) / kSpec.block_m();
  std::int64_t beyond = 0;  // the second tile of a pair may lie past the last query
  for (const TileInfo& tile : tiles) {
    ASSERT_TRUE(seen.emplace(tile.m_block, tile.head, tile.batch).second) << "tile " << tile.m_block << " of head " << tile.head << " twice";
    ASSERT_GE(tile.m_block, 0);
    ASSERT_GE(tile.head, 0);
    ASSERT_LT(tile.head, problem.num_heads);
    ASSERT_GE(tile.batch, 0);
    ASSERT_LT(tile.batch, problem.batch);
    ASSERT_GE(tile.end_block, 1);
    beyond += tile.m_block >= per_head;
  }
  EXPECT_EQ(static_cast<std::int64_t>(tiles.size()) - beyond, per_head * problem.num_heads * problem.batch);
  EXPECT_LE(beyond, kSpec.cluster == 1 ? 0 : problem.num_heads * problem.batch);
}

std::vector<ForwardProblem> shapes(bool causal) {
  std::vector<ForwardProblem> problems;
  for (const auto& [batch, heads, heads_kv] : {std::tuple{1, 1, 1}, {1, 7, 7}, {2, 8, 2}, {3, 15, 5}, {5, 12, 1}, {300, 1, 1}, {1, 257, 1}})
    for (const std::int64_t seqlen_q : {1, 11, 64, 65, 127, 128, 129, 255, 1763})
      for (const std::int64_t seqlen_k : {0, 1, 128, 1763}) problems.push_back(problem(batch, seqlen_q, seqlen_k, heads, heads_kv, causal));
  std::mt19937_64 engine(11);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<std::int64_t>(low, high)(engine); };
  for (int i = 0; i < 60; ++i) {
    const std::int64_t heads_kv = draw(1, 6);
    problems.push_back(problem(draw(1, 5), draw(1, 3'000), draw(0, 3'000), heads_kv * draw(1, 5), heads_kv, causal, 8 * draw(1, 32)));
  }
  return problems;
}

// Sections from one KV head to all of them, so that the last one is often a partial one.
constexpr std::int64_t kSectionSizes[] = {1, 1 << 18, 1 << 20, kSection};

template <ForwardSpec kSpec>
void expect_coverage() {
  for (const ForwardProblem& shape : shapes(kSpec.causal))
    for (const std::int64_t section : kSectionSizes)
      for (const int multiprocessors : {132, 3}) {
        SCOPED_TRACE(::testing::Message() << "batch " << shape.batch << " queries " << shape.seqlen_q << " keys " << shape.seqlen_k << " heads "
                                          << shape.num_heads << "/" << shape.num_heads_kv << " section " << section);
        const Launch<kSpec> launch(shape, multiprocessors, section, kCounterMark);
        expect_each_tile_once<kSpec>(shape, launch.all());
        if (::testing::Test::HasFailure()) return;
      }
}

constexpr ForwardSpec kDynamic{};
constexpr ForwardSpec kDynamicCausal{.causal = true, .consumer_warpgroups = 3};
constexpr ForwardSpec kStatic{.consumer_warpgroups = 1, .ctas_per_sm = 3, .scheduler = Scheduler::static_persistent};
constexpr ForwardSpec kStaticCausal{.causal = true, .scheduler = Scheduler::static_persistent};
constexpr ForwardSpec kSingle{.scheduler = Scheduler::single_tile};
constexpr ForwardSpec kSingleCausal{.causal = true, .consumer_warpgroups = 1, .scheduler = Scheduler::single_tile};
constexpr ForwardSpec kSingleTall{.causal = true, .scheduler = Scheduler::single_tile};
constexpr ForwardSpec kPair{.cluster = 2, .scheduler = Scheduler::static_persistent};
constexpr ForwardSpec kSinglePair{.cluster = 2, .scheduler = Scheduler::single_tile};

TEST(TileOrder, DynamicSchedulerComputesEveryTileOnce) { expect_coverage<kDynamic>(); }
TEST(TileOrder, DynamicSchedulerComputesEveryCausalTileOnce) { expect_coverage<kDynamicCausal>(); }
TEST(TileOrder, StaticSchedulerComputesEveryTileOnce) { expect_coverage<kStatic>(); }
TEST(TileOrder, StaticSchedulerComputesEveryCausalTileOnce) { expect_coverage<kStaticCausal>(); }
TEST(TileOrder, SingleTileSchedulerComputesEveryTileOnce) { expect_coverage<kSingle>(); }
TEST(TileOrder, SingleTileSchedulerComputesEveryCausalTileOnce) { expect_coverage<kSingleCausal>(); }
TEST(TileOrder, PairsOfBlocksComputeEveryTileOnce) { expect_coverage<kPair>(); }
TEST(TileOrder, SinglePairsOfBlocksComputeEveryTileOnce) { expect_coverage<kSinglePair>(); }

TEST(TileOrder, BlocksOfAPairWorkOnNeighboursOfOneHead) {
  const Launch<kPair> launch(problem(2, 1763, 512, 6, 3, false), 132, kSection, kCounterMark);
  ASSERT_EQ(launch.of_block.size() % 2, 0u);
  for (std::size_t block = 0; block < launch.of_block.size(); block += 2) {
    ASSERT_EQ(launch.of_block[block].size(), launch.of_block[block + 1].size());
    for (std::size_t i = 0; i < launch.of_block[block].size(); ++i) {
      const TileInfo &even = launch.of_block[block][i], &odd = launch.of_block[block + 1][i];
      EXPECT_EQ(even.m_block % 2, 0);
      EXPECT_EQ(odd.m_block, even.m_block + 1);
      EXPECT_EQ(std::tie(odd.head, odd.batch, odd.end_block), std::tie(even.head, even.batch, even.end_block)) << "both must load the same K and V";
    }
  }
}

TEST(DynamicScheduler, LeavesTheCounterReadyForTheNextRun) {
  u64 counter = kCounterMark;
  for (std::uint64_t run = 0; run < 20; ++run) {
    const ForwardProblem shape = problem(1, 700 + 100 * static_cast<std::int64_t>(run), 999, 40, 8, false);
    const Launch<kDynamic> launch(shape, 132, kSection, counter, run);
    expect_each_tile_once<kDynamic>(shape, launch.all());
    counter = launch.counter_after;
    ASSERT_EQ(counter, kCounterMark);
  }
}

TEST(DynamicScheduler, FallsBackToTheStaticOrderInAWorkspaceThatNobodyInitialised) {
  const ForwardProblem shape = problem(2, 1763, 1763, 20, 4, false);
  for (const u64 garbage : {u64{0}, ~u64{0}, u64{0x7ff8000000000000}, kCounterMark ^ 1ull << 32}) {
    const Launch<kDynamic> launch(shape, 132, kSection, garbage);
    expect_each_tile_once<kDynamic>(shape, launch.all());
    EXPECT_EQ(launch.counter_after, garbage) << "memory that is not a counter was written";
  }
}

// ------------------------------------------------------------------------------------------------------------------ order and locality

template <ForwardSpec kSpec>
std::vector<TileInfo> in_order(const ForwardProblem& problem, std::int64_t section_bytes) {
  const Launch<kSpec> launch(problem, 132, section_bytes, kCounterMark);
  std::vector<TileInfo> tiles;
  for (const auto& block : launch.of_block) tiles.push_back(block.at(0));
  return tiles;
}

TEST(TileOrder, PutsTheLongestCausalTilesFirstInEverySection) {
  for (const std::int64_t section : kSectionSizes) {
    const ForwardProblem shape = problem(2, 1763, 1763, 12, 4, true);
    const TileOrder order = make_geometry(kSingleCausal, shape, 132, section).order;
    const auto tiles = in_order<kSingleCausal>(shape, section);
    const auto in_sections = static_cast<std::size_t>(order.in_sections);
    for (std::size_t i = 1; i < tiles.size(); ++i)
      if (i > in_sections || (i < in_sections && i % static_cast<std::size_t>(order.section_tiles.divisor) != 0)) {
        ASSERT_LE(tiles[i].end_block, tiles[i - 1].end_block) << "tile " << i;
      }
    EXPECT_GT(tiles.front().end_block, tiles.back().end_block);
  }
}

// Time until the last block is done, when each takes the next tile as soon as it is free and a tile takes as long as its key blocks and one more.
double makespan(const std::vector<TileInfo>& tiles, int places) {
  std::priority_queue<int, std::vector<int>, std::greater<>> free_at;
  for (int i = 0; i < places; ++i) free_at.push(0);
  int end = 0;
  for (const TileInfo& tile : tiles) {
    const int done = free_at.top() + tile.end_block + 1;
    free_at.pop();
    free_at.push(done);
    end = std::max(end, done);
  }
  return end;
}

// Head counts for which the last section would begin with long tiles when little else is left: without the tiles held back 5 to 20 % of the time.
TEST(TileOrder, NoMultiprocessorWaitsLongForTheLastCausalTiles) {
  for (const auto& [batch, seqlen, heads] : {std::tuple{1, 16'384, 5},
                                             {1, 16'384, 17},
                                             {1, 16'384, 21},
                                             {1, 16'384, 23},
                                             {1, 16'384, 32},
                                             {4, 4'096, 10},
                                             {8, 2'048, 24},
                                             {2, 8'192, 13},
                                             {1, 32'768, 3}})
    for (const std::int64_t section_mb : {16, 32}) {
      SCOPED_TRACE(::testing::Message() << "batch " << batch << " seqlen " << seqlen << " heads " << heads << " sections of " << section_mb << " MiB");
      const ForwardProblem shape = problem(batch, seqlen, seqlen, heads, heads, true);
      const auto tiles = in_order<kSingleTall>(shape, section_mb << 20);
      double work = 0;
      for (const TileInfo& tile : tiles) work += tile.end_block + 1;
      expect_each_tile_once<kSingleTall>(shape, tiles);
      EXPECT_LT(makespan(tiles, 132) / (work / 132), 1.035);
    }
}

TEST(TileOrder, TilesHeldBackAreComputedOnceUnderEveryScheduler) {
  const ForwardProblem shape = problem(1, 8'192, 8'192, 7, 7, true);
  ASSERT_GT(make_geometry(kDynamicCausal, shape, 132, 8 << 20).order.held_back, 0);
  expect_each_tile_once<kDynamicCausal>(shape, Launch<kDynamicCausal>(shape, 132, 8 << 20, kCounterMark).all());
  expect_each_tile_once<kStaticCausal>(shape, Launch<kStaticCausal>(shape, 132, 8 << 20, kCounterMark).all());
  expect_each_tile_once<kSingleCausal>(shape, Launch<kSingleCausal>(shape, 132, 8 << 20, kCounterMark).all());
}

// ... but where the first queries see most of the keys too no tile is short, and every pair's keys would pass through the cache again.
TEST(TileOrder, HoldsNothingBackWhereNoTileIsShort) {
  EXPECT_GT(make_geometry(kSingleCausal, problem(1, 16'384, 16'384, 5, 5, true), 132, 16 << 20).order.held_back, 0);
  EXPECT_EQ(make_geometry(kSingleCausal, problem(1, 4'096, 16'384, 5, 5, true), 132, 16 << 20).order.held_back, 0);
  EXPECT_EQ(make_geometry(kSingle, problem(1, 16'384, 16'384, 5, 5, false), 132, 16 << 20).order.held_back, 0);
  EXPECT_EQ(make_geometry(kSingleCausal, problem(1, 2'048, 2'048, 8, 8, true), 132, 32 << 20).order.held_back, 0) << "one section";
}

TEST(TileOrder, KeepsTheKeysOfASectionWithinTheCache) {
  for (const std::int64_t section : {std::int64_t{1} << 20, std::int64_t{8} << 20, kSection})
    for (const auto& [batch, heads, heads_kv] : {std::tuple{1, 32, 32}, {4, 32, 8}, {7, 33, 3}, {64, 16, 1}}) {
      const ForwardProblem shape = problem(batch, 4096, 4096, heads, heads_kv, false);
      const auto tiles = in_order<kSingle>(shape, section);
      const LaunchGeometry geometry = make_geometry(kSingle, shape, 132, section);
      const auto per_section = static_cast<std::size_t>(geometry.order.section_tiles.divisor);
      const std::int64_t bytes_of_a_head = shape.seqlen_k * (shape.head_dim + shape.head_dim_v) * 2;
      for (std::size_t first = 0; first < tiles.size(); first += per_section) {
        std::set<std::pair<int, int>> kv_heads;
        for (std::size_t i = first; i < std::min(first + per_section, tiles.size()); ++i) kv_heads.emplace(tiles[i].batch, tiles[i].head * heads_kv / heads);
        // A section that starts inside a group of query heads touches one KV head more.
        EXPECT_LE(static_cast<std::int64_t>(kv_heads.size()), std::max<std::int64_t>(1, section / bytes_of_a_head) + 1);
      }
    }
}

TEST(Geometry, AsksForNoMoreBlocksThanThereAreTilesOrPlaces) {
  for (const int multiprocessors : {1, 2, 114, 132})
    for (const std::int64_t seqlen_q : {1, 300, 100'000}) {
      const ForwardProblem shape = problem(1, seqlen_q, 128, 4, 4, false);
      for (const ForwardSpec& spec : {kDynamic, kStatic, kPair}) {
        const LaunchGeometry geometry = make_geometry(spec, shape, multiprocessors, kSection);
        EXPECT_LE(geometry.grid, std::max(multiprocessors * spec.ctas_per_sm, spec.cluster));
        EXPECT_LE(geometry.grid, geometry.order.tiles * spec.cluster);
        EXPECT_EQ(geometry.grid % spec.cluster, 0);
        EXPECT_GE(geometry.grid, 1);
      }
      const LaunchGeometry single = make_geometry(kSingle, shape, multiprocessors, kSection);
      EXPECT_EQ(single.grid, single.order.tiles);
    }
}

TEST(Geometry, NeedsWorkspaceOnlyToCount) {
  const ForwardProblem shape = problem(1, 300, 300, 4, 4, false);
  EXPECT_EQ(make_geometry(kDynamic, shape, 132, kSection).workspace_bytes, 16u);
  EXPECT_EQ(make_geometry(kStatic, shape, 132, kSection).workspace_bytes, 0u);
  EXPECT_EQ(make_geometry(kSingle, shape, 132, kSection).workspace_bytes, 0u);
}

TEST(Geometry, HasNoTilesWhereThereIsNoWork) {
  for (const ForwardProblem& empty : {problem(0, 300, 300, 4, 4, false), problem(1, 0, 300, 4, 4, false), problem(1, 300, 300, 0, 0, false)}) {
    const LaunchGeometry geometry = make_geometry(kDynamic, empty, 132, kSection);
    EXPECT_EQ(geometry.grid, 0);
    EXPECT_EQ(geometry.order.tiles, 0);
  }
}

// -------------------------------------------------------------------------------------------------------------- trip counts and masks

bool visible(const ForwardProblem& problem, std::int64_t query, std::int64_t key) {
  const std::int64_t position = query + problem.seqlen_k - problem.seqlen_q, chunk = problem.attention_chunk;
  if (key >= problem.seqlen_k) return false;
  if (problem.causal && key > position) return false;
  if (problem.window_left >= 0 && key < position - problem.window_left) return false;
  if (problem.window_right >= 0 && key > position + problem.window_right) return false;
  return chunk == 0 || (position >= 0 && key / chunk == position / chunk);
}

// Masks to lay over a problem: a spec that is not local has none beside causal.
struct LocalMask {
  std::int64_t left = -1, right = -1, chunk = 0;
};

// What a row sees after the kernel's trip counts, unmasked loop and mask must be what the contract says it sees.
template <ForwardSpec kSpec>
void expect_contract_masks(const LocalMask& local = {}) {
  std::mt19937_64 engine(13);
  std::vector<std::pair<std::int64_t, std::int64_t>> lengths = {{1, 0}, {1, 1}, {1, 500}, {300, 1}, {300, 0}, {128, 128}, {129, 127}, {127, 129}, {200, 333}};
  for (int i = 0; i < 12; ++i) lengths.emplace_back(1 + engine() % 400, engine() % 400);
  for (const auto& [seqlen_q, seqlen_k] : lengths) {
    SCOPED_TRACE(::testing::Message() << seqlen_q << " queries, " << seqlen_k << " keys");
    ForwardProblem shape = problem(1, seqlen_q, seqlen_k, 1, 1, kSpec.causal);
    shape.window_left = local.left;
    shape.window_right = local.right;
    shape.attention_chunk = local.chunk;
    u64 counter = kCounterMark;
    const ForwardParams params = params_of(make_geometry(kSpec, shape, 132, kSection), shape, counter);
    const Seqlens<kSpec> seqlens(params, TileInfo{});
    for (int m_block = 0; m_block * kSpec.block_m() < seqlen_q; ++m_block) {
      const int first_block = seqlens.first_block(m_block), end_block = seqlens.end_block(m_block);
      ASSERT_LT(first_block, end_block) << "every tile visits a block";
      for (int warpgroup = 0; warpgroup < kSpec.consumer_warpgroups; ++warpgroup) {
        const int first_row = m_block * kSpec.block_m() + warpgroup * 64;
        const int first_whole = seqlens.first_whole(first_row), end_whole = seqlens.end_whole(first_row);
        const int end_of_sums = std::min(end_whole, end_block - 1);  // the first block that is visited takes the maximum in any case
        for (std::int64_t query = first_row; query < std::min<std::int64_t>(first_row + 64, seqlen_q) && end_of_sums > first_whole; ++query) {
          bool has_offset = false;
          for (std::int64_t key = end_of_sums * kSpec.block_n; key < seqlen_k; ++key) has_offset = has_offset || visible(shape, query, key);
          ASSERT_TRUE(has_offset) << "query " << query << " meets its first key in a block that takes no maximum";
        }
        for (int thread = 0; thread < 128; ++thread) {
          const int lane = thread % 32, row_of_thread = first_row + thread / 32 * 16 + lane / 4;
          const Mask<kSpec> mask(seqlens, row_of_thread, lane);
          for (int n_block = 0; n_block <= end_block; ++n_block) {  // what is not visited may hold nothing visible
            float scores[kSpec.block_n / 2];
            std::fill(std::begin(scores), std::end(scores), 1.0f);
            if (n_block < first_block || n_block == end_block)
              std::fill(std::begin(scores), std::end(scores), -INFINITY);
            else if (n_block >= end_whole || n_block == end_block - 1)
              mask.apply_right(scores, n_block);
            else if constexpr (kSpec.local) {
              if (n_block < first_whole) mask.apply_left(scores, n_block);
            }
            for (int i = 0; i < kSpec.block_n / 2; ++i) {
              // Element i of a thread, as the PTX ISA lays out the accumulator of m64nNk16.
              const std::int64_t query = row_of_thread + 8 * (i / 2 % 2), key = n_block * kSpec.block_n + 8 * (i / 4) + 2 * (lane % 4) + i % 2;
              if (query >= seqlen_q) continue;  // computed and not stored
              ASSERT_EQ(scores[i] == 1.0f, visible(shape, query, key)) << "query " << query << " key " << key;
            }
          }
        }
      }
    }
  }
}

TEST(Mask, FullAttentionSeesEveryKeyAndNoByteBehindThem) { expect_contract_masks<ForwardSpec{.block_n = 80}>(); }
TEST(Mask, CausalIsAlignedToTheBottomRight) { expect_contract_masks<ForwardSpec{.causal = true, .block_n = 48}>(); }
TEST(Mask, CausalHoldsForThreeWarpgroups) { expect_contract_masks<ForwardSpec{.causal = true, .consumer_warpgroups = 3, .block_n = 128}>(); }

constexpr ForwardSpec kLocal{.local = true, .block_n = 48};
TEST(Mask, WindowsHoldBothEnds) {
  for (const LocalMask& mask : {LocalMask{17, 5}, {0, 0}, {100, 3}, {-1, 20}, {64, -1}, {300, 300}}) expect_contract_masks<kLocal>(mask);
}
TEST(Mask, CausalWindowsEndAtTheDiagonal) {
  for (const LocalMask& mask : {LocalMask{40, -1}, {0, -1}, {200, -1}}) expect_contract_masks<ForwardSpec{.causal = true, .local = true, .block_n = 80}>(mask);
}
TEST(Mask, ChunksKeepToThemselves) {
  for (const LocalMask& mask : {LocalMask{-1, -1, 50}, {-1, -1, 1}, {30, -1, 64}, {-1, -1, 0x7fffffff}}) {
    expect_contract_masks<kLocal>(mask);
    expect_contract_masks<ForwardSpec{.causal = true, .local = true, .consumer_warpgroups = 3, .block_n = 128}>(mask);
  }
}

TEST(TripCount, OfALongWindowCountsTheWindow) {
  ForwardProblem shape = problem(1, 4'096, 4'096, 1, 1, true);
  shape.window_left = 256;
  constexpr ForwardSpec kSpec{.causal = true, .local = true, .block_n = 64};
  u64 counter = kCounterMark;
  const ForwardParams params = params_of(make_geometry(kSpec, shape, 132, kSection), shape, counter);
  const Seqlens<kSpec> seqlens(params, TileInfo{});
  for (int m_block = 4; m_block < 32; ++m_block) EXPECT_EQ(seqlens.end_block(m_block) - seqlens.first_block(m_block), (256 + 128) / 64) << m_block;
}

TEST(TripCount, LeavesOutBlocksThatNobodySees) {
  constexpr ForwardSpec kSpec{.causal = true, .block_n = 64};
  const ForwardProblem shape = problem(1, 1'024, 1'024, 1, 1, true);
  u64 counter = kCounterMark;
  const ForwardParams params = params_of(make_geometry(kSpec, shape, 132, kSection), shape, counter);
  const Seqlens<kSpec> seqlens(params, TileInfo{});
  for (int m_block = 0; m_block < 8; ++m_block) EXPECT_EQ(seqlens.end_block(m_block), 2 * (m_block + 1));
}

}  // namespace
}  // namespace tandem
