// Inputs for who calls a backend without the C++ interface.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem::cli {

// A contiguous BF16 tensor (batch, seqlen, heads, dim) of N(0, 1).
std::vector<std::byte> normal_bf16(const std::array<std::int64_t, 4>& shape, std::uint64_t seed);

}  // namespace tandem::cli
