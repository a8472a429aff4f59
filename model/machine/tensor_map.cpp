#include "machine/tensor_map.hpp"

#include <fmt/format.h>

namespace tandem::model {
namespace {

constexpr std::uint64_t kMagic = 0x74616e64656d4d31ull;

}  // namespace

std::optional<std::string> broken_rule(const DecodedMap& map) {
  if (map.rank < 1 || map.rank > kMaxRank) return fmt::format("the rank is {}; it must be 1 to 5", map.rank);
  if (reinterpret_cast<std::uintptr_t>(map.base) % 16 != 0) return "the tensor does not start at a multiple of 16 bytes";
  for (std::size_t i = 0; i < static_cast<std::size_t>(map.rank); ++i) {
    if (map.extent[i] < 1 || map.extent[i] > (1ull << 32)) return fmt::format("extent {} is {}; it must be 1 to 2^32", i, map.extent[i]);
    if (map.box[i] < 1 || map.box[i] > 256) return fmt::format("box {} is {}; it must be 1 to 256", i, map.box[i]);
    if (i > 0 && (map.stride_bytes[i] % 16 != 0 || map.stride_bytes[i] >= (1ull << 40)))
      return fmt::format("stride {} is {} bytes; it must be a multiple of 16 below 2^40", i, map.stride_bytes[i]);
  }
  if (map.row_bytes() % 16 != 0) return fmt::format("a row of the box has {} bytes; it must have a multiple of 16", map.row_bytes());
  if (map.row_bytes() > map.shared_row_bytes())
    return fmt::format("a row of the box has {} bytes; this swizzle takes at most {}", map.row_bytes(), map.shared_row_bytes());
  return std::nullopt;
}

TensorMap encode(const DecodedMap& map) {
  TensorMap out{};
  out.opaque[0] = kMagic;
  out.opaque[1] = reinterpret_cast<std::uintptr_t>(map.base);
  out.opaque[2] =
      static_cast<unsigned long long>(map.rank) | static_cast<unsigned long long>(map.element_bytes) << 8 | static_cast<unsigned long long>(map.swizzle) << 16;
  for (std::size_t i = 0; i < kMaxRank; ++i) {
    out.opaque[3 + i] = map.extent[i];
    if (i > 0) out.opaque[7 + i] = map.stride_bytes[i];
    out.opaque[12 + i / 3] |= static_cast<unsigned long long>(map.box[i]) << (i % 3 * 16);
  }
  return out;
}

std::optional<DecodedMap> decode(const TensorMap& map) {
  if (map.opaque[0] != kMagic) return std::nullopt;
  DecodedMap out;
  out.base = reinterpret_cast<const unsigned char*>(map.opaque[1]);
  out.rank = static_cast<int>(map.opaque[2] & 0xff);
  out.element_bytes = static_cast<int>(map.opaque[2] >> 8 & 0xff);
  out.swizzle = static_cast<Swizzle>(map.opaque[2] >> 16 & 0xff);
  for (std::size_t i = 0; i < kMaxRank; ++i) {
    out.extent[i] = map.opaque[3 + i];
    out.stride_bytes[i] = i == 0 ? static_cast<std::uint64_t>(out.element_bytes) : map.opaque[7 + i];
    out.box[i] = static_cast<std::uint32_t>(map.opaque[12 + i / 3] >> (i % 3 * 16) & 0xffff);
  }
  return out;
}

}  // namespace tandem::model
