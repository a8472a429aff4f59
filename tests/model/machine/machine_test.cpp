// The machine, on kernels of a few lines.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "machine/launch.hpp"
#include "machine/operand.hpp"
#include "machine/shared_memory.hpp"
#include "machine/tensor_map.hpp"
#include "model/machine/small_kernels.hpp"

namespace tandem::testing {
namespace {

using model::Fault;
using ::testing::HasSubstr;

struct Played {
  std::optional<model::Diagnosis> diagnosis;
  std::array<float, 64> out{};
};

struct Options {
  int threads = 64;
  int cluster = 1;
  std::uint64_t most_steps = 0;
};

Played run(SmallKernel kernel, std::uint64_t seed, const Options& options = {}) {
  model::KernelImage image;
  image.name = "small";
  image.entry = kernel;
  image.threads = options.threads;
  image.cluster = options.cluster;
  image.shared_bytes = kSmallSharedBytes;
  std::vector<model::SharedField> fields{{"numbers", kNumbersOffset, kNumbers * 4}};
  for (unsigned i = 0; i < kBarriers; ++i) fields.push_back({fmt::format("barriers[{}]", i), kBarriersOffset + 8 * i, 8, model::SharedField::Kind::barrier});
  image.shared = model::SharedLayout(fields);

  Played result;
  std::array<float, 64> in;
  std::iota(in.begin(), in.end(), 1.0f);
  model::DecodedMap map;
  map.base = reinterpret_cast<const unsigned char*>(in.data());
  map.rank = 4;
  map.element_bytes = 2;
  map.extent = {64, 2, 1, 1, 1};
  map.stride_bytes = {2, 128, 128, 128, 0};
  map.box = {64, 1, 1, 1, 1};
  SmallParams params{result.out.data(), in.data(), encode(map), {}};
  map.base -= 256;
  map.extent[1] = 4;
  params.last_rows = encode(map);
  model::GlobalMemory memory;
  model::GlobalTensor tensor;
  tensor.row_bytes = sizeof in;
  tensor.name = "in";
  tensor.data = in.data();
  memory.add(tensor);
  tensor.name = "out";
  tensor.data = result.out.data();
  tensor.access = model::GlobalAccess::read_write;
  memory.add(tensor);

  model::LaunchConfig config;
  config.grid = options.cluster;
  config.params = &params;
  config.params_bytes = sizeof params;
  config.memory = &memory;
  config.seed = seed;
  if (options.most_steps != 0) config.most_steps = options.most_steps;
  result.diagnosis = model::launch(image, config).diagnosis;
  return result;
}

constexpr std::uint64_t kSeeds = 50;

void expect_clean(SmallKernel kernel, const Options& options = {}) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Played result = run(kernel, seed, options);
    ASSERT_FALSE(result.diagnosis.has_value()) << result.diagnosis->text();
  }
}

// The first fault within kSeeds, which must be of this kind.
model::Diagnosis expect_fault(Fault fault, SmallKernel kernel, const Options& options = {}) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Played result = run(kernel, seed, options);
    if (!result.diagnosis) continue;
    EXPECT_EQ(result.diagnosis->fault, fault) << result.diagnosis->text();
    return *result.diagnosis;
  }
  ADD_FAILURE() << "no fault in " << kSeeds << " seeds";
  return {};
}

TEST(Machine, RunsThreadsThatExchangeThroughSharedMemory) {
  expect_clean(sum_through_shared_memory);
  const Played result = run(sum_through_shared_memory, 7);
  EXPECT_EQ(result.out[0], 3.0f);
  EXPECT_EQ(result.out[63], 65.0f);
}

TEST(Machine, FindsAMissingBarrier) {
  // The neighbour may not have written at all, or may have written unseen.
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Played result = run(sum_without_sync, seed);
    ASSERT_TRUE(result.diagnosis.has_value()) << seed;
    EXPECT_TRUE(result.diagnosis->fault == Fault::race || result.diagnosis->fault == Fault::uninitialised_read);
    EXPECT_EQ(result.diagnosis->object, "numbers");
  }
}

TEST(Machine, ABarrierOfTheWarpDoesNotOrderTheBlock) {
  const Played result = run(sum_with_warp_sync_only, 3);
  ASSERT_TRUE(result.diagnosis.has_value());
  EXPECT_THAT(result.diagnosis->where, HasSubstr("small_kernels.cpp:"));
}

TEST(Machine, FindsReadsOfWhatNobodyWrote) { EXPECT_EQ(expect_fault(Fault::uninitialised_read, read_before_any_write).object, "numbers"); }
TEST(Machine, FindsAccessesOutsideSharedMemory) { expect_fault(Fault::global_out_of_bounds, write_past_shared_memory); }
TEST(Machine, NeighbouringBytesAreNoRace) { expect_clean(byte_wise_neighbours); }

TEST(Machine, BarriersAreNoOrdinaryMemory) {
  EXPECT_EQ(expect_fault(Fault::barrier_misuse, ordinary_write_to_a_barrier).object, "barriers[1]");
  EXPECT_EQ(expect_fault(Fault::barrier_misuse, barrier_initialised_twice).object, "barriers[0]");
  expect_fault(Fault::misaligned, misaligned_barrier);
}

TEST(Machine, GlobalMemoryIsTheTensorsOfTheCall) {
  EXPECT_EQ(expect_fault(Fault::global_out_of_bounds, write_to_an_input).object, "in");
  expect_fault(Fault::global_out_of_bounds, read_past_an_input);
  EXPECT_EQ(expect_fault(Fault::global_out_of_bounds, stray_pointer).object, "global memory");
}

TEST(Machine, LanesOfAWarpStayTogether) {
  expect_fault(Fault::diverged_warp, lanes_in_different_exchanges);
  expect_fault(Fault::diverged_warp, lane_leaves_before_an_exchange);
}

TEST(Machine, APhaseThatComesRoundAgainIsADeadlock) {
  const model::Diagnosis diagnosis = expect_fault(Fault::deadlock, wait_for_a_phase_that_overtakes);
  EXPECT_THAT(diagnosis.object, HasSubstr("barriers[0], parity 0"));
  EXPECT_THAT(diagnosis.state, HasSubstr("barriers[0]: phase 2"));
}

TEST(Machine, BarriersHandOverBetweenThreads) {
  expect_clean(ping_through_barriers);
  EXPECT_EQ(run(ping_through_barriers, 1).out[5], 28.0f);
}

TEST(Machine, EndsAKernelThatDoesNot) { expect_fault(Fault::livelock, spins_for_ever, {.most_steps = 100'000}); }

TEST(Machine, AccountsForRegisters) {
  expect_clean(registers_back_and_forth, {.threads = 384});
  EXPECT_EQ(expect_fault(Fault::register_pool, registers_given_by_one_warp_too_few, {.threads = 384}).object, "register file");
}

TEST(Machine, ABarrierWithoutAPartnerIsADeadlockOrLeftOpen) {
  const model::Diagnosis diagnosis = expect_fault(Fault::deadlock, barrier_without_a_partner);
  EXPECT_THAT(diagnosis.object, HasSubstr("bar 5"));
  EXPECT_THAT(diagnosis.state, HasSubstr("32 of 64 threads have come"));
}

TEST(Machine, ClustersReachEachOthersBarriers) {
  expect_clean(cluster_handshake, {.cluster = 2});
  expect_fault(Fault::unfinished_work, arrives_at_a_block_that_left, {.cluster = 2});
}

TEST(Machine, BytesThatNobodyBringsAreNamed) {
  const model::Diagnosis diagnosis = expect_fault(Fault::deadlock, waits_for_bytes_of_nobody);
  EXPECT_THAT(diagnosis.state, HasSubstr("barriers[0]: phase 0, 0 of 1 arrivals missing, 4096 bytes missing"));
}

TEST(Machine, ALoadWhollyOutsideTheTensorReadsTheBeginningOfItsMap) {
  expect_clean(loads_a_row_beyond_all);
  expect_clean(loads_a_row_that_is_the_last);
  const model::Diagnosis diagnosis = expect_fault(Fault::global_out_of_bounds, loads_a_row_beyond_the_last);
  EXPECT_THAT(diagnosis.message, HasSubstr("before the first byte of in"));
}

TEST(Machine, ASeedReplaysExactly) {
  for (const std::uint64_t seed : {0ull, 1ull, 12345678901ull}) {
    const Played once = run(sum_without_sync, seed), again = run(sum_without_sync, seed);
    ASSERT_TRUE(once.diagnosis.has_value() && again.diagnosis.has_value());
    EXPECT_EQ(once.diagnosis->text(), again.diagnosis->text());
    EXPECT_THAT(once.diagnosis->text(), HasSubstr(fmt::format("TANDEM_MODEL_SEED={} replays it", seed)));
  }
}

TEST(TensorMaps, KeepEveryField) {
  model::DecodedMap map;
  map.base = reinterpret_cast<const unsigned char*>(0x123456780);
  map.rank = 5;
  map.element_bytes = 2;
  map.swizzle = model::Swizzle::bytes64;
  map.extent = {64, 1ull << 32, 3, 4, 5};
  map.stride_bytes = {2, 128, 1ull << 39, 16, 32};
  map.box = {32, 256, 1, 2, 3};
  const auto decoded = model::decode(model::encode(map));
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->base, map.base);
  EXPECT_EQ(decoded->extent, map.extent);
  EXPECT_EQ(decoded->stride_bytes, map.stride_bytes);
  EXPECT_EQ(decoded->box, map.box);
  EXPECT_EQ(decoded->swizzle, map.swizzle);
  EXPECT_FALSE(model::broken_rule(*decoded).has_value());
  EXPECT_FALSE(model::decode(TensorMap{}).has_value());
}

TEST(TensorMaps, KeepTheRulesOfTheDriver) {
  model::DecodedMap good;
  good.rank = 2;
  good.element_bytes = 2;
  good.swizzle = model::Swizzle::bytes128;
  good.extent = {64, 10, 1, 1, 1};
  good.stride_bytes = {2, 128, 0, 0, 0};
  good.box = {64, 8, 1, 1, 1};
  ASSERT_FALSE(model::broken_rule(good).has_value());
  const auto breaks = [&](auto&& change) {
    model::DecodedMap map = good;
    change(map);
    return model::broken_rule(map).value_or("");
  };
  EXPECT_THAT(breaks([](auto& m) { m.box[1] = 257; }), HasSubstr("box 1 is 257"));
  EXPECT_THAT(breaks([](auto& m) { m.box[0] = 72; }), HasSubstr("at most 128"));
  EXPECT_THAT(breaks([](auto& m) { m.box[0] = 4; }), HasSubstr("multiple of 16"));
  EXPECT_THAT(breaks([](auto& m) { m.stride_bytes[1] = 100; }), HasSubstr("stride 1 is 100"));
  EXPECT_THAT(breaks([](auto& m) { m.extent[0] = 0; }), HasSubstr("extent 0 is 0"));
  EXPECT_THAT(breaks([](auto& m) { m.base = reinterpret_cast<const unsigned char*>(8); }), HasSubstr("16 bytes"));
}

// The canonical layouts of the PTX ISA, each by a value taken from its definition.
TEST(Descriptors, GatherEveryCanonicalLayout) {
  const auto bits = [](std::uint32_t offset, std::uint32_t leading, std::uint32_t stride, std::uint64_t code) {
    return static_cast<std::uint64_t>((offset + model::kSharedWindowBase) >> 4) | static_cast<std::uint64_t>(leading >> 4) << 16 |
           static_cast<std::uint64_t>(stride >> 4) << 32 | code << 62;
  };
  constexpr std::uint32_t kShared = 65536;
  const auto unit = [&](std::uint64_t descriptor, model::Contiguous contiguous, int lines, int index) {
    const auto operand = model::gather_units(descriptor, contiguous, lines, kShared);
    EXPECT_FALSE(operand.broken.has_value()) << *operand.broken;
    return operand.units.at(static_cast<std::size_t>(index)) * 16;
  };
  using model::Contiguous;
  // k contiguous: units [line][half]. Line 11 is row 3 of the second group of eight.
  EXPECT_EQ(unit(bits(0, 16, 1024, 1), Contiguous::k, 16, 2 * 11), 1024 + 3 * 128 + ((0 ^ 3) << 4));
  EXPECT_EQ(unit(bits(32, 16, 1024, 1), Contiguous::k, 16, 2 * 11 + 1), 1024 + 3 * 128 + ((3 ^ 3) << 4));
  EXPECT_EQ(unit(bits(0, 16, 512, 2), Contiguous::k, 16, 2 * 11), 512 + 3 * 64 + (1 << 4));  // 64-byte pattern: bits 4-5 by bits 7-8
  EXPECT_EQ(unit(bits(0, 16, 256, 3), Contiguous::k, 16, 2 * 13), 256 + 5 * 32 + (1 << 4));  // 32-byte pattern: bit 4 by bit 7
  EXPECT_EQ(unit(bits(0, 128, 256, 0), Contiguous::k, 16, 2 * 11 + 1), 256 + 3 * 16 + 128);  // none: core matrices
  // n contiguous: units [k][group of eight lines]. k 10, lines 72 to 79.
  EXPECT_EQ(unit(bits(0, 8192, 1024, 1), Contiguous::other, 128, 10 * 16 + 9), 8192 + 1024 + 2 * 128 + ((1 ^ 2) << 4));
  EXPECT_EQ(unit(bits(0, 4096, 512, 2), Contiguous::other, 128, 10 * 16 + 9), 2 * 4096 + 512 + 2 * 64 + ((1 ^ 1) << 4));
  EXPECT_EQ(unit(bits(0, 128, 256, 0), Contiguous::other, 128, 10 * 16 + 9), 9 * 256 + 128 + 2 * 16);

  EXPECT_THAT(model::gather_units(bits(128, 16, 1024, 1), Contiguous::k, 16, kShared).broken.value_or(""), HasSubstr("128 bytes into"));
  EXPECT_THAT(model::gather_units(bits(0, 16, 1024, 1) | 1ull << 47, Contiguous::k, 16, kShared).broken.value_or(""), HasSubstr("outside its fields"));
  EXPECT_THAT(model::gather_units(bits(60 * 1024, 16, 4096, 1), Contiguous::k, 32, kShared).broken.value_or(""), HasSubstr("outside the block"));
}

}  // namespace
}  // namespace tandem::testing
