// The roofline of a tile against numbers worked out by hand (docs/ARCHITECTURE.md), and the order it puts specs in.
#include "plan/roofline.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "plan/spec_text.hpp"
#include "specs.hpp"

namespace tandem {
namespace {

struct Tile {
  ForwardSpec spec;
  double tensor, exp, shared_percent;  // cycles; share of the tensor cycles
};

// m64nNk16 in N / 2 cycles, 16 exps a cycle, 128 bytes of shared memory a cycle.
constexpr Tile kTiles[] = {
    {{.head_dim = 64, .head_dim_v = 64, .consumer_warpgroups = 3, .block_n = 128}, 1536, 1536, 79},
    {{.head_dim = 128, .head_dim_v = 128, .block_n = 128}, 2048, 1024, 88},
    {{.head_dim = 128, .head_dim_v = 128, .block_n = 176}, 2816, 1408, 84},
    {{.head_dim = 128, .head_dim_v = 128, .consumer_warpgroups = 3, .block_n = 128}, 3072, 1536, 79},
    {{.head_dim = 256, .head_dim_v = 256, .block_n = 80}, 2560, 640, 95},
};

TEST(Roofline, CountsTheCyclesOfKnownTiles) {
  for (const Tile& tile : kTiles) {
    SCOPED_TRACE(to_text(tile.spec));
    const Roofline roof = roofline(tile.spec);
    EXPECT_DOUBLE_EQ(roof.tensor, tile.tensor);
    EXPECT_DOUBLE_EQ(roof.exp, tile.exp);
    EXPECT_NEAR(100 * roof.shared / roof.tensor, tile.shared_percent, 0.6);
  }
}

TEST(Roofline, ChargesTheRescaleOnlyWhereItIsMade) {
  ForwardSpec lazy, eager;
  lazy.lazy_rescale = true;
  eager.lazy_rescale = false;
  // 64 rows x 128 keys at head dim 128: FFMA, FADD, and FMUL for the rescale; a third of the instructions.
  EXPECT_NEAR(roofline(lazy).interference / roofline(eager).interference, 2.0 / 3.0, 1e-9);
  EXPECT_LT(roofline(lazy).issue, roofline(eager).issue);
}

TEST(Roofline, ChargesASoftcapToTheUnitThatBendsTheScores) {
  const auto beside = [](int head_dim, int block_n) {
    ForwardSpec plain{.head_dim = head_dim, .head_dim_v = head_dim, .block_n = block_n}, capped = plain;
    capped.softcap = true;
    return std::pair(roofline(plain), roofline(capped));
  };
  // By the cubic: two more FP32 instructions, 0.86 cycles of the tensor core each. By the exp unit: a tanh beside each exp, and an FMUL.
  const auto [plain, cubic] = beside(128, 128);
  EXPECT_DOUBLE_EQ(cubic.exp, plain.exp);
  EXPECT_DOUBLE_EQ(cubic.interference, 2 * plain.interference);
  const auto [wide, tanh] = beside(256, 64);
  EXPECT_DOUBLE_EQ(tanh.exp, 2 * wide.exp);
  EXPECT_DOUBLE_EQ(tanh.interference, 1.5 * wide.interference);
  EXPECT_GT(cubic.issue, plain.issue);
  EXPECT_GT(tanh.issue, wide.issue);
}

TEST(Roofline, SparesReadsOfQInRegisters) {
  ForwardSpec shared, registers;
  registers.q_in_registers = true;
  const double saved = roofline(shared).shared - roofline(registers).shared;
  EXPECT_DOUBLE_EQ(saved, 2.0 * 64 * 128 * 2 / 128);
}

TEST(Roofline, IsPositiveAndNamesItsBoundForEverySpec) {
  testing::RandomSpecs random(9);
  for (int i = 0; i < 2'000; ++i) {
    const ForwardSpec spec = random.valid();
    SCOPED_TRACE(to_text(spec));
    const Roofline roof = roofline(spec);
    for (const double cycles : {roof.tensor, roof.exp, roof.shared, roof.issue}) {
      ASSERT_GT(cycles, 0);
      ASSERT_LE(cycles, roof.bound());
    }
    const std::string binding(roof.binding());
    const double of_binding = binding == "tensor"   ? roof.tensor + roof.interference
                              : binding == "exp"    ? roof.exp
                              : binding == "shared" ? roof.shared
                              : binding == "issue"  ? roof.issue
                                                    : -1;
    ASSERT_EQ(of_binding, roof.bound());
  }
}

TEST(Roofline, GrowsWithTheBlock) {
  ForwardSpec narrow, wide;
  narrow.block_n = 64;
  wide.block_n = 128;
  EXPECT_DOUBLE_EQ(roofline(wide).tensor, 2 * roofline(narrow).tensor);
  EXPECT_DOUBLE_EQ(roofline(wide).exp, 2 * roofline(narrow).exp);
}

TEST(TileCycles, GrowWithTheStepsAndShrinkBetweenTilesThatShareAMultiprocessor) {
  ForwardSpec alone, shared;
  alone.consumer_warpgroups = shared.consumer_warpgroups = 1;
  shared.ctas_per_sm = 3;
  EXPECT_GT(tile_cycles(alone, 0), 0);
  EXPECT_LT(tile_cycles(shared, 0), tile_cycles(alone, 0));
  EXPECT_GT(tile_cycles(alone, 9), tile_cycles(alone, 8));
  const double step = tile_cycles(alone, 9) - tile_cycles(alone, 8);
  EXPECT_GE(step, roofline(alone).bound());
  EXPECT_LE(step, 1.5 * roofline(alone).bound());
}

}  // namespace
}  // namespace tandem
