#include "support/number_format.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backends/cpu/narrow_float.hpp"
#include "support/random.hpp"

namespace tandem::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(NumberFormat, EveryPatternOf16BitsComesBackFromItsValue) {
  for (const ElementType type : {ElementType::fp16, ElementType::bf16}) {
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const double value = decode(type, bits);
      if (std::isnan(value)) continue;
      ASSERT_EQ(encode(type, value), bits) << name_of(type);
      ASSERT_EQ(round_to(type, value), value) << name_of(type) << " " << bits;
    }
  }
}

TEST(NumberFormat, KnownValues) {
  EXPECT_EQ(decode(ElementType::fp16, 0x3c00), 1.0);
  EXPECT_EQ(decode(ElementType::fp16, 0x7bff), 65504.0);
  EXPECT_EQ(decode(ElementType::fp16, 0x0001), std::ldexp(1.0, -24));
  EXPECT_EQ(decode(ElementType::bf16, 0x3f80), 1.0);
  EXPECT_EQ(decode(ElementType::bf16, 0x0001), std::ldexp(1.0, -133));
  EXPECT_EQ(decode(ElementType::fp32, 0x3f800001), 1.0 + std::ldexp(1.0, -23));
  EXPECT_EQ(encode(ElementType::bf16, 133120.0), 0x4802u);
}

TEST(NumberFormat, RoundsToNearestWithTiesToEven) {
  const double unit = std::ldexp(1.0, -10);
  EXPECT_EQ(round_to(ElementType::fp16, 1.0 + unit / 2), 1.0);
  EXPECT_EQ(round_to(ElementType::fp16, 1.0 + 3 * unit / 2), 1.0 + 2 * unit);
  EXPECT_EQ(round_to(ElementType::fp16, 65519.0), 65504.0);
  EXPECT_EQ(round_to(ElementType::fp16, 65520.0), kInfinity);
  EXPECT_EQ(round_to(ElementType::fp16, std::ldexp(1.0, -25)), 0.0);
  EXPECT_EQ(round_to(ElementType::bf16, 257.0), 256.0);
  EXPECT_EQ(round_to(ElementType::bf16, 259.0), 260.0);
  EXPECT_EQ(round_to(ElementType::bf16, -std::ldexp(1.0, 128)), -kInfinity);
}

// The CPU backend converts on bits; here every 16-bit value, the midpoints between neighbours and what lies just beside them must agree.
TEST(NumberFormat, AgreesWithTheConversionsOfTheCpuBackend) {
  const auto check = [](float x) {
    ASSERT_EQ(cpu::fp32_to_fp16(x), encode(ElementType::fp16, round_to(ElementType::fp16, static_cast<double>(x)))) << x;
    ASSERT_EQ(cpu::fp32_to_bf16(x), encode(ElementType::bf16, round_to(ElementType::bf16, static_cast<double>(x)))) << x;
  };
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    for (const ElementType type : {ElementType::fp16, ElementType::bf16}) {
      const double value = decode(type, bits);
      const auto pattern = static_cast<std::uint16_t>(bits);
      const float ours = type == ElementType::fp16 ? cpu::fp16_to_fp32(pattern) : cpu::bf16_to_fp32(pattern);
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(ours));
        continue;
      }
      ASSERT_EQ(static_cast<double>(ours), value);
      check(ours);
      const double next = decode(type, bits + 1 < 65536 ? bits + 1 : bits);
      if (!std::isfinite(value) || !std::isfinite(next)) continue;
      const auto middle = static_cast<float>((value + next) / 2);
      check(middle);
      check(std::nextafter(middle, 0.0f));
      check(std::nextafter(middle, std::numeric_limits<float>::infinity()));
    }
  }
  Random random(1);
  for (int i = 0; i < 200'000; ++i) check(static_cast<float>(random.normal() * std::ldexp(1.0, static_cast<int>(random.below(80)) - 50)));
  EXPECT_TRUE(std::isnan(cpu::fp16_to_fp32(cpu::fp32_to_fp16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(cpu::bf16_to_fp32(cpu::fp32_to_bf16(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace
}  // namespace tandem::testing
