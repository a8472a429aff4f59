// Division by multiplication is exact wherever the kernel uses it: 0 <= n < 2^31, 1 <= divisor < 2^31.
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

#include "attention/seqlens.cuh"

namespace tandem {
namespace {

constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max();

::testing::AssertionResult divides(std::int64_t n, std::int64_t divisor) {
  const int quotient = attention::divide(static_cast<int>(n), FastDivisor(static_cast<int>(divisor)));
  if (quotient == n / divisor) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << n << " / " << divisor << " came out as " << quotient;
}

std::vector<std::int64_t> edges() {
  std::vector<std::int64_t> values = {0, 1, 2, 3, 5, 7, 10, 127, 128, 129, 255, 1763, 65'535, 65'536, 65'537, 4'194'303, 715'827'882, 1'431'655'765, kLimit};
  for (int bit = 1; bit < 31; ++bit)
    for (const std::int64_t near : {-1, 0, 1}) values.push_back((std::int64_t{1} << bit) + near);
  return values;
}

TEST(FastDivisor, IsExactAtEdges) {
  for (const std::int64_t divisor : edges()) {
    if (divisor == 0) continue;
    for (const std::int64_t n : edges()) ASSERT_TRUE(divides(n, divisor));
    // Around multiples of the divisor the quotient changes.
    for (const std::int64_t multiple : {divisor, 2 * divisor, kLimit / divisor * divisor})
      for (const std::int64_t n : {multiple - 1, multiple, multiple + 1})
        if (n <= kLimit) {
          ASSERT_TRUE(divides(n, divisor));
        }
  }
}

TEST(FastDivisor, IsExactForRandomPairs) {
  std::mt19937_64 engine(7);
  std::uniform_int_distribution<int> bits(0, 30);
  for (int i = 0; i < 2'000'000; ++i) {
    const std::int64_t n = static_cast<std::int64_t>(engine()) & kLimit >> bits(engine);
    const std::int64_t divisor = std::max<std::int64_t>(1, static_cast<std::int64_t>(engine()) & kLimit >> bits(engine));
    ASSERT_TRUE(divides(n, divisor));
  }
}

TEST(FastDivisor, IsExactForEverySmallPair) {
  for (std::int64_t divisor = 1; divisor <= 300; ++divisor)
    for (std::int64_t n = 0; n <= 3'000; ++n) ASSERT_TRUE(divides(n, divisor));
}

TEST(FastDivisor, DefaultDividesByOne) {
  for (const std::int64_t n : edges()) EXPECT_EQ(attention::divide(static_cast<int>(n), FastDivisor()), n);
}

}  // namespace
}  // namespace tandem
