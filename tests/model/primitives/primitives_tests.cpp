// What the PTX ISA says of the primitives, computed here in another way. The same bodies judge the model and the H200: where they ask for bits,
// both machines give the same.
#include "model/primitives/primitives_tests.hpp"

#include <bit>
#include <cmath>

#include "support/number_format.hpp"

namespace tandem::primitives {

void PrintTo(const Runner& runner, std::ostream* out) { *out << runner.name; }

std::uint64_t digest(const std::vector<std::uint32_t>& words) {
  std::uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  for (const std::uint32_t word : words) hash = (hash ^ word) * 0x100000001b3ull;
  return hash;
}

namespace {

// Where a 16-byte piece of a row of 128 bytes stands.
int swizzled_word(int row, int word) { return row * 32 + ((word / 4) ^ (row % 8)) * 4 + word % 4; }

std::uint32_t pattern(int salt, int i) {
  return static_cast<std::uint32_t>(salt) << 24 | static_cast<std::uint32_t>(i) << 8 | static_cast<std::uint32_t>(i * 7 & 0xff);
}

TEST_P(Primitives, WgmmaMultipliesInEveryShapeAndLayout) {
  for (const Kernel kernel : {Kernel::wgmma_fp16, Kernel::wgmma_bf16}) {
    const Outputs& got = run(kernel);
    for (int n = kFirstN; n <= kMaxN; n += kStepN) {
      for (int way = 0; way < kWays; ++way) {
        for (int thread = 0; thread < 128; ++thread) {
          for (int i = 0; i < n / 2; ++i) {
            const int row = thread / 32 * 16 + thread % 32 / 4 + 8 * (i / 2 % 2), column = 8 * (i / 4) + 2 * (thread % 4) + i % 2;
            int sum = way == 3 ? thread - i : 0;
            for (int k = 0; k < (way == kNarrowWay ? kNarrowK : kK); ++k) sum += value_a(row, k) * value_b(k, column);
            const std::uint32_t word = got.out[static_cast<std::size_t>(wgmma_offset(n, way) + thread * (n / 2) + i)];
            ASSERT_EQ(std::bit_cast<float>(word), static_cast<float>(sum))
                << name_of(kernel) << " n " << n << " way " << way << " thread " << thread << " register " << i;
          }
        }
      }
    }
  }
}

// The 16-bit element of `odd` at a place, 0 outside.
std::uint16_t odd_at(const Inputs& inputs, int column, int row, int head, int batch) {
  if (column < 0 || column >= kOddColumns || row < 0 || row >= kOddRows || head < 0 || head >= kOddHeads || batch < 0 || batch >= kOddBatch) return 0;
  return inputs.odd[static_cast<std::size_t>(((batch * kOddHeads + head) * kOddRows + row) * kOddColumns + column)];
}

void expect_box(const Inputs& inputs, const std::uint32_t* got, const BoxPlace& place, int rows, int heads) {
  for (int head = 0; head < heads; ++head) {
    for (int row = 0; row < rows; ++row) {
      for (int word = 0; word < 32; ++word) {
        const auto at = [&](int i) { return odd_at(inputs, place.column + 2 * word + i, place.row + row, place.head + head, place.batch); };
        const std::uint32_t expected = at(0) | static_cast<std::uint32_t>(at(1)) << 16;
        ASSERT_EQ(got[swizzled_word(head * rows + row, word)], expected) << "box at " << place.column << ", " << place.row << ", " << place.head << ", "
                                                                         << place.batch << ": head " << head << " row " << row << " word " << word;
      }
    }
  }
}

TEST_P(Primitives, BoxesAreSwizzledAndZeroOutsideTheTensor) {
  const Inputs inputs = make_inputs(Kernel::moves);
  const Outputs& got = run(Kernel::moves);
  for (int i = 0; i < kBoxes; ++i) expect_box(inputs, &got.out[static_cast<std::size_t>(offset_of(Move::boxes) + i * kBoxWords)], kBoxPlaces[i], kBoxRows, 1);
  for (int i = 0; i < kFlatBoxes; ++i)
    expect_box(inputs, &got.out[static_cast<std::size_t>(offset_of(Move::flat_boxes) + i * kFlatWords)], kFlatPlaces[i], kFlatRows, kFlatHeads);
}

TEST_P(Primitives, BoxesNarrowerThanTheSwizzleLeaveTheRestOfEachRow) {
  const Inputs inputs = make_inputs(Kernel::moves);
  const Outputs& got = run(Kernel::moves);
  for (int box = 0; box < kNarrowBoxCount; ++box) {
    const auto [columns, row_bytes] = kNarrowBoxes[box];
    std::vector<std::uint32_t> expected;
    for (int word = 0; word < kBoxWords; ++word) expected.push_back(pattern(kNarrowSalt + box, word));
    for (int row = 0; row < kBoxRows; ++row)
      for (int column = 0; column < columns; column += 2) {
        const int linear = row * row_bytes + column * 2;
        const int place = linear ^ (linear / 128 % (row_bytes / 16) * 16);
        const auto at = [&](int i) { return odd_at(inputs, kNarrowPlace.column + column + i, kNarrowPlace.row + row, kNarrowPlace.head, kNarrowPlace.batch); };
        expected[static_cast<std::size_t>(place / 4)] = at(0) | static_cast<std::uint32_t>(at(1)) << 16;
      }
    for (int word = 0; word < kBoxWords; ++word)
      ASSERT_EQ(got.out[static_cast<std::size_t>(offset_of(Move::narrow_boxes) + box * kBoxWords + word)], expected[static_cast<std::size_t>(word)])
          << columns << " columns in rows of " << row_bytes << " bytes, word " << word;
  }
}

TEST_P(Primitives, StoresWriteWhatLiesInsideTheTensorAndNothingElse) {
  const Outputs& got = run(Kernel::moves);
  for (int batch = 0; batch < kOddBatch; ++batch)
    for (int head = 0; head < kOddHeads; ++head)
      for (int row = 0; row < kOddRows; ++row)
        for (int column = 0; column < kOddColumns; ++column) {
          std::uint16_t expected = 0xffff;
          for (int i = 0; i < kStores; ++i) {
            const BoxPlace& place = kStorePlaces[i];
            const int r = row - place.row, c = column - place.column;
            if (batch != place.batch || head != place.head || r < 0 || r >= kBoxRows || c < 0 || c >= 64) continue;
            const std::uint32_t word = pattern(i + 1, swizzled_word(r, c / 2));
            expected = static_cast<std::uint16_t>(c % 2 == 0 ? word : word >> 16);
          }
          ASSERT_EQ(got.stored[static_cast<std::size_t>(((batch * kOddHeads + head) * kOddRows + row) * kOddColumns + column)], expected)
              << batch << ", " << head << ", " << row << ", " << column;
        }
}

TEST_P(Primitives, MatricesGoBetweenSharedMemoryAndRegisters) {
  const Outputs& got = run(Kernel::moves);
  const std::uint32_t* words = &got.out[static_cast<std::size_t>(offset_of(Move::ldmatrix))];
  for (int warp = 0; warp < 4; ++warp)
    for (int lane = 0; lane < 32; ++lane)
      for (int matrix = 0; matrix < 4; ++matrix) {
        const int row = warp * 8 + lane / 4, piece = (matrix * 2 + warp) % 8;
        EXPECT_EQ(words[(warp * 32 + lane) * 4 + matrix], pattern(100, swizzled_word(row, piece * 4 + lane % 4)));
      }
  words = &got.out[static_cast<std::size_t>(offset_of(Move::stmatrix))];
  for (int half = 0; half < 2; ++half)
    for (int row = 0; row < 32; ++row)
      for (int word = 0; word < 32; ++word) {
        const int at = swizzled_word(row, word);
        std::uint32_t expected = pattern(101 + half, at);
        // Warp w of the half wrote pieces 2 w and 2 w + 1 of its 16 rows: matrices 0 and 1 the first piece, 2 and 3 the second.
        const int w = row / 16, piece = word / 4 - 2 * w;
        if (piece == 0 || piece == 1) {
          const int matrix = 2 * piece + row % 16 / 8, lane = row % 8 * 4 + word % 4;
          expected = pattern(1 + matrix, (half * 2 + w) * 32 + lane);
        }
        EXPECT_EQ(words[half * 1024 + at], expected) << half << ", " << row << ", " << word;
      }
}

TEST_P(Primitives, LanesExchange) {
  const Outputs& got = run(Kernel::moves);
  for (int thread = 0; thread < 128; ++thread) {
    const std::uint32_t* words = &got.out[static_cast<std::size_t>(offset_of(Move::shuffles) + thread * 6)];
    const int first = thread / 32 * 32;
    EXPECT_EQ(words[0], static_cast<std::uint32_t>(first * 3));
    EXPECT_EQ(words[1], static_cast<std::uint32_t>((first + ((thread % 32) ^ 11)) * 5));
    EXPECT_EQ(std::bit_cast<float>(words[2]), static_cast<float>(first + 13));
    EXPECT_EQ(words[3], thread / 32 == 70 / 32 ? 1u : 0u);
    EXPECT_EQ(words[4], 1u);
    EXPECT_EQ(words[5], 1u);
  }
}

TEST_P(Primitives, ConversionsRoundToNearestEven) {
  const Inputs inputs = make_inputs(Kernel::arithmetic);
  const Outputs& got = run(Kernel::arithmetic);
  const auto number = [&](int i) { return std::bit_cast<float>(inputs.floats[static_cast<std::size_t>(i % kFloats)]); };
  for (int i = 0; i < kFloats; ++i) {
    for (int half = 0; half < 2; ++half) {
      const float x = number(i + half);
      const std::uint32_t bf16 = got.out[static_cast<std::size_t>(i)] >> (16 * half) & 0xffff;
      const std::uint32_t fp16 = got.out[static_cast<std::size_t>(kFloats + i)] >> (16 * half) & 0xffff;
      if (std::isnan(x)) {
        EXPECT_EQ(bf16, 0x7fffu);
        EXPECT_EQ(fp16, 0x7fffu);
      } else {
        EXPECT_EQ(std::bit_cast<float>(bf16 << 16), static_cast<float>(testing::round_to(ElementType::bf16, x))) << x;
        const float widened = std::bit_cast<float>(got.out[static_cast<std::size_t>(kArithmeticWords) + 2 * kHalves + fp16]);
        EXPECT_EQ(widened, static_cast<float>(testing::round_to(ElementType::fp16, x))) << x;
      }
    }
  }
}

TEST_P(Primitives, HalvesWidenExactly) {
  const Outputs& got = run(Kernel::arithmetic);
  const std::uint32_t* words = &got.out[kArithmeticWords];
  for (std::uint32_t i = 0; i < kHalves; ++i) {
    EXPECT_EQ(words[i], i << 16);
    EXPECT_EQ(words[kHalves + i], i << 16);
    EXPECT_EQ(words[2 * kHalves + i], words[3 * kHalves + i]);
    const int exponent = static_cast<int>(i >> 10 & 31), mantissa = static_cast<int>(i & 1023);
    const float got_fp16 = std::bit_cast<float>(words[2 * kHalves + i]);
    if (exponent == 31) {
      EXPECT_TRUE(mantissa == 0 ? std::isinf(got_fp16) : std::isnan(got_fp16));
      continue;
    }
    const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    EXPECT_EQ(got_fp16, static_cast<float>((i & 0x8000) != 0 ? -magnitude : magnitude));
  }
}

TEST_P(Primitives, ArithmeticIsThatOfTheHardware) {
  const Inputs inputs = make_inputs(Kernel::arithmetic);
  const Outputs& got = run(Kernel::arithmetic);
  const auto bits = [&](int i) { return inputs.floats[static_cast<std::size_t>(i % kFloats)]; };
  const auto result = [&](Op op, int i) { return std::bit_cast<float>(got.out[static_cast<std::size_t>(static_cast<int>(op) * kFloats + i)]); };
  const auto same = [](float a, float b) { return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b)); };
  for (int i = 0; i < kFloats; ++i) {
    const float a = std::bit_cast<float>(bits(i)), b = std::bit_cast<float>(bits(i + 1)), c = std::bit_cast<float>(bits(i + 2));
    const float larger = std::isnan(a) ? b : std::isnan(b) ? a : a > b || (a == b && !std::signbit(a)) ? a : b;
    EXPECT_TRUE(same(result(Op::max, i), larger)) << a << " " << b;
    EXPECT_TRUE(same(result(Op::max_in_place, i), larger));
    EXPECT_TRUE(same(result(Op::abs, i), std::fabs(a)));
    EXPECT_TRUE(same(result(Op::fma, i), std::fma(a, b, c)));
    EXPECT_TRUE(same(result(Op::multiply, i), a * b));
    EXPECT_EQ(got.out[static_cast<std::size_t>(static_cast<int>(Op::multiply_high) * kFloats + i)],
              static_cast<std::uint32_t>(static_cast<std::uint64_t>(bits(i)) * bits(i + 1) >> 32));
    // Subnormals count as zero, coming and going.
    const double argument = std::fabs(a) < 0x1p-126f ? std::copysign(0.0, a) : a;
    const double power = std::exp2(argument);
    EXPECT_TRUE(std::isnan(power)      ? std::isnan(result(Op::exp2, i))
                : power < 0x1p-126     ? result(Op::exp2, i) <= 0x1p-126f
                : power > 3.4028235e38 ? std::isinf(result(Op::exp2, i))
                                       : std::fabs(result(Op::exp2, i) - power) <= 0x1p-22 * power)
        << a;
  }
}

TEST_P(Primitives, AMulticastReachesEveryBlock) {
  const Inputs inputs = make_inputs(Kernel::multicast);
  const Outputs& got = run(Kernel::multicast);
  for (int block = 0; block < 2; ++block)
    for (int rank = 0; rank < 2; ++rank)
      expect_box(inputs, &got.out[static_cast<std::size_t>(block * kBoxWords + rank * kFlatWords)], {8 * rank, 40 + 7 * rank, rank, 1}, kFlatRows, kFlatHeads);
}

TEST_P(Primitives, LogarithmsAndReciprocalsAreClose) {
  const Inputs inputs = make_inputs(Kernel::arithmetic);
  const Outputs& got = run(Kernel::arithmetic);
  const auto result = [&](Op op, int i) { return std::bit_cast<float>(got.out[static_cast<std::size_t>(static_cast<int>(op) * kFloats + i)]); };
  for (int i = 0; i < kFloats; ++i) {
    const float a = std::bit_cast<float>(inputs.floats[static_cast<std::size_t>(i)]);
    const double argument = std::fabs(a) < 0x1p-126f ? std::copysign(0.0, a) : a;
    const double logarithm = std::log2(argument), inverse = 1.0 / argument;
    const float lg2 = result(Op::log2, i), rcp = result(Op::reciprocal, i);
    if (std::isnan(logarithm)) {
      EXPECT_TRUE(std::isnan(lg2)) << a;
    } else if (std::isinf(logarithm)) {
      EXPECT_EQ(lg2, static_cast<float>(logarithm)) << a;
    } else {
      // PTX: absolute error 2^-22 between 1/2 and 2, relative error 2^-22 elsewhere.
      EXPECT_LE(std::fabs(lg2 - logarithm), 0x1p-22 * std::max(1.0, std::fabs(logarithm))) << a;
    }
    if (std::isnan(inverse)) {
      EXPECT_TRUE(std::isnan(rcp)) << a;
    } else if (std::isinf(inverse)) {
      EXPECT_EQ(rcp, static_cast<float>(inverse)) << a;
    } else if (std::fabs(inverse) < 0x1p-126) {
      EXPECT_LE(std::fabs(rcp), 0x1p-126f) << a;
    } else {
      EXPECT_LE(std::fabs(rcp - inverse), 0x1p-22 * std::fabs(inverse)) << a;
    }
  }
}

// For the record of a run: equal digests, equal bits.
TEST_P(Primitives, ExactResultsHaveADigest) {
  for (const Kernel kernel : {Kernel::wgmma_fp16, Kernel::wgmma_bf16, Kernel::moves, Kernel::multicast}) {
    const std::string text = fmt::format("{:016x}", digest(run(kernel).out));
    RecordProperty(name_of(kernel), text);
    fmt::print("{} {} {}\n", GetParam().name, name_of(kernel), text);
  }
}

}  // namespace
}  // namespace tandem::primitives
