#include "model/primitives/host.hpp"

#include <bit>
#include <cmath>

namespace tandem::primitives {
namespace {

std::uint16_t encode(Kernel kernel, int value) {
  // Small integers: the exponent and three bits of mantissa suffice.
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (kernel != Kernel::wgmma_fp16) return static_cast<std::uint16_t>(bits >> 16);
  if (value == 0) return 0;
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000) | (((bits >> 13) & 0x3ffff) - ((127 - 15) << 10)));
}

TensorMapRequest map_of(const void* base, Kernel kernel, std::array<std::uint64_t, 5> extent, std::array<std::uint32_t, 5> box) {
  TensorMapRequest map;
  map.base = base;
  map.type = kernel == Kernel::wgmma_fp16 ? DType::fp16 : DType::bf16;
  map.extent = extent;
  map.box = box;
  map.swizzle_bytes = static_cast<int>(box[0]) * 2;
  // (batch, head, row, column), contiguous.
  map.stride_bytes = {extent[0] * 2, extent[0] * extent[1] * 2, extent[0] * extent[1] * extent[2] * 2};
  return map;
}

}  // namespace

const char* name_of(Kernel kernel) {
  constexpr const char* kNames[] = {"wgmma_fp16", "wgmma_bf16", "moves", "arithmetic", "multicast"};
  return kNames[static_cast<int>(kernel)];
}

int out_words(Kernel kernel) {
  switch (kernel) {
    case Kernel::moves: return kMoveWords;
    case Kernel::arithmetic: return kArithmeticWords + kWidenWords;
    case Kernel::multicast: return kClusterWords;
    default: return kWgmmaWords;
  }
}

int shared_bytes(Kernel kernel) {
  constexpr int kBarrierLine = 1024;
  if (kernel == Kernel::wgmma_fp16 || kernel == Kernel::wgmma_bf16) return (kM + kMaxN + kMaxN / 64 * kK) * 128 + kMaxN * kNarrowK * 2 + kBarrierLine;
  return kBoxRows * 128 + kBarrierLine;
}

int blocks_of(Kernel kernel) { return kernel == Kernel::multicast ? 2 : 1; }

int value_a(int m, int k) { return (m * 5 + k * 3) % 9 - 4; }
int value_b(int k, int n) { return (k * 7 + n * 11 + k * n % 5) % 9 - 4; }

std::size_t odd_elements() { return static_cast<std::size_t>(kOddBatch) * kOddHeads * kOddRows * kOddColumns; }

Inputs make_inputs(Kernel kernel) {
  Inputs inputs;
  for (int m = 0; m < kM; ++m)
    for (int k = 0; k < kK; ++k) inputs.a.push_back(encode(kernel, value_a(m, k)));
  for (int n = 0; n < kMaxN; ++n)
    for (int k = 0; k < kK; ++k) inputs.b_k.push_back(encode(kernel, value_b(k, n)));
  for (int k = 0; k < kK; ++k)
    for (int n = 0; n < kMaxN; ++n) inputs.b_n.push_back(encode(kernel, value_b(k, n)));
  for (std::size_t i = 0; i < odd_elements(); ++i) inputs.odd.push_back(static_cast<std::uint16_t>(i * 3 + 1));

  // Numbers of every size, halfway cases of both roundings, infinities, NaN, subnormals; then random bits.
  const float special[] = {0.0f,
                           -0.0f,
                           1.0f,
                           -1.0f,
                           65504.0f,
                           65519.996f,
                           65520.0f,
                           1e9f,
                           -3e38f,
                           5.9604645e-8f,
                           2.98e-8f,
                           6.1e-5f,
                           1.00390625f,
                           1.01171875f,
                           1.0004883f,
                           1.0014648f,
                           std::ldexp(1.0f, -126),
                           std::ldexp(1.0f, -140),
                           -150.0f,
                           126.5f,
                           127.99f,
                           128.0f,
                           -126.0f,
                           -149.0f,
                           0.5f,
                           2.0f,
                           0.99999994f,
                           1.0000001f,
                           1e-20f,
                           -7.25f};
  for (const float x : special) inputs.floats.push_back(std::bit_cast<std::uint32_t>(x));
  for (const std::uint32_t bits : {0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00001u, 0x7f800001u, 0x7fffffffu, 0x00000001u, 0x807fffffu})
    inputs.floats.push_back(bits);
  std::uint64_t state = 1;
  while (inputs.floats.size() < kFloats) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    const auto bits = static_cast<std::uint32_t>(state >> 32);
    // Half of them of usual size.
    inputs.floats.push_back(inputs.floats.size() % 2 == 0 ? bits
                                                          : std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(bits)) * 0x1p-26f));
  }
  return inputs;
}

Maps make_maps(Kernel kernel, const void* a, const void* b_k, const void* b_n, const void* odd, void* stored) {
  Maps maps;
  maps.a = map_of(a, kernel, {kK, kM, 1, 1}, {64, kM, 1, 1});
  maps.b_k = map_of(b_k, kernel, {kK, kMaxN, 1, 1}, {64, kMaxN, 1, 1});
  maps.b_n = map_of(b_n, kernel, {kMaxN, kK, 1, 1}, {64, kK, 1, 1});
  maps.b_16 = map_of(b_k, kernel, {kK, kMaxN, 1, 1}, {kNarrow, kMaxN, 1, 1});
  maps.b_32 = map_of(b_k, kernel, {kK, kMaxN, 1, 1}, {kHalf, kMaxN, 1, 1});
  maps.odd = map_of(odd, kernel, {kOddColumns, kOddRows, kOddHeads, kOddBatch}, {64, kBoxRows, 1, 1});
  maps.flat = map_of(odd, kernel, {kOddColumns, kOddRows, kOddHeads, kOddBatch}, {64, kFlatRows, kFlatHeads, 1});
  maps.stored = map_of(stored, kernel, {kOddColumns, kOddRows, kOddHeads, kOddBatch}, {64, kBoxRows, 1, 1});
  for (int i = 0; i < kNarrowBoxCount; ++i) {
    maps.narrow[i] = maps.odd;
    maps.narrow[i].box[0] = static_cast<std::uint32_t>(kNarrowBoxes[i].columns);
    maps.narrow[i].swizzle_bytes = kNarrowBoxes[i].row_bytes;
  }
  return maps;
}

}  // namespace tandem::primitives
