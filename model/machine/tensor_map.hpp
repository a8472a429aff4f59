// Tensor maps of the model. The driver's own encoding is not documented, so the 128 opaque bytes hold ours; the fields, and the rules that
// cuTensorMapEncodeTiled enforces, are the driver's.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "ptx/tensor_map.hpp"

namespace tandem::model {

enum class Swizzle : std::uint32_t { none = 0, bytes32 = 1, bytes64 = 2, bytes128 = 3 };

constexpr Swizzle swizzle_of(int bytes) { return bytes == 32 ? Swizzle::bytes32 : bytes == 64 ? Swizzle::bytes64 : Swizzle::bytes128; }

constexpr std::uint32_t span_of(Swizzle swizzle) { return 16u << static_cast<std::uint32_t>(swizzle); }

constexpr int kMaxRank = 5;

struct DecodedMap {
  const unsigned char* base = nullptr;
  int rank = 0;
  int element_bytes = 0;
  Swizzle swizzle = Swizzle::none;
  std::array<std::uint64_t, kMaxRank> extent{};        // elements; dimension 0 is contiguous
  std::array<std::uint64_t, kMaxRank> stride_bytes{};  // [0] is element_bytes
  std::array<std::uint32_t, kMaxRank> box{};           // elements

  std::uint32_t row_bytes() const { return box[0] * static_cast<std::uint32_t>(element_bytes); }
  std::uint32_t rows() const {
    std::uint32_t rows = 1;
    for (int i = 1; i < rank; ++i) rows *= box[static_cast<std::size_t>(i)];
    return rows;
  }
  std::uint32_t bytes() const { return rows() * row_bytes(); }

  // In shared memory a row takes all of the swizzle's span, however little the box fills of it; what is beside it stays as it was.
  std::uint32_t shared_row_bytes() const { return swizzle == Swizzle::none ? row_bytes() : span_of(swizzle); }
  std::uint32_t shared_bytes() const { return rows() * shared_row_bytes(); }
  bool fills_rows() const { return row_bytes() == shared_row_bytes(); }
};

// The sentence that says which rule of the driver the map breaks; nullopt if none.
std::optional<std::string> broken_rule(const DecodedMap& map);

TensorMap encode(const DecodedMap& map);

// nullopt if these are not the bytes of a map that encode() made.
std::optional<DecodedMap> decode(const TensorMap& map);

// Address bits 4.. are xored with address bits 7..: the pattern lies in shared memory, not in the box.
constexpr std::uint32_t swizzled(std::uint32_t address, Swizzle swizzle) {
  const std::uint32_t mask = (1u << static_cast<std::uint32_t>(swizzle)) - 1;
  return address ^ (((address >> 7) & mask) << 4);
}

// Destination and source of a swizzled box start at a multiple of this.
constexpr std::uint32_t kTmaSharedAlignment = 128;

}  // namespace tandem::model
