#include "machine/operand.hpp"

#include <fmt/format.h>

#include "machine/block.hpp"

namespace tandem::model {
namespace {

constexpr int kUnitElements = 8;
constexpr int kK = 16;

std::uint32_t span_bytes(Swizzle swizzle) { return 16u << static_cast<std::uint32_t>(swizzle); }

// Address of a unit before the swizzle. The canonical layouts of the PTX ISA, in bytes.
std::uint32_t unit_address(const OperandDescriptor& d, Contiguous contiguous, std::uint32_t line, std::uint32_t k) {
  if (contiguous == Contiguous::k) {
    const std::uint32_t half = k / kUnitElements;
    if (d.swizzle == Swizzle::none) return d.start + line / 8 * d.stride + line % 8 * 16 + half * d.leading;
    return d.start + line / 8 * d.stride + line % 8 * span_bytes(d.swizzle) + half * 16;
  }
  const std::uint32_t group = line / kUnitElements;
  if (d.swizzle == Swizzle::none) return d.start + group * d.stride + k % 8 * 16 + k / 8 * d.leading;
  const std::uint32_t groups_a_span = span_bytes(d.swizzle) / 16;
  return d.start + group / groups_a_span * d.leading + group % groups_a_span * 16 + k % 8 * span_bytes(d.swizzle) + k / 8 * d.stride;
}

}  // namespace

OperandDescriptor OperandDescriptor::decode(std::uint64_t bits) {
  OperandDescriptor d;
  d.start = static_cast<std::uint32_t>(bits & 0x3fff) << 4;
  d.leading = static_cast<std::uint32_t>(bits >> 16 & 0x3fff) << 4;
  d.stride = static_cast<std::uint32_t>(bits >> 32 & 0x3fff) << 4;
  d.base_offset = static_cast<std::uint32_t>(bits >> 49 & 7);
  constexpr Swizzle kCodes[] = {Swizzle::none, Swizzle::bytes128, Swizzle::bytes64, Swizzle::bytes32};
  d.swizzle = kCodes[bits >> 62];
  return d;
}

OperandUnits gather_units(std::uint64_t descriptor, Contiguous contiguous, int lines, std::uint32_t shared_bytes) {
  OperandUnits operand;
  operand.contiguous = contiguous;
  operand.lines = lines;
  const OperandDescriptor d = OperandDescriptor::decode(descriptor);
  // Bits that no field owns: a sum that ran over its field, or a descriptor made for something else.
  constexpr std::uint64_t kUnused = 0x3ff1'c000'c000'c000ull;
  if ((descriptor & kUnused) != 0) {
    operand.broken = fmt::format("descriptor {:#x} has bits set outside its fields", descriptor);
    return operand;
  }
  if (d.swizzle != Swizzle::none) {
    const std::uint32_t pattern = 8 * span_bytes(d.swizzle);
    const std::uint32_t found = d.start % pattern / 128;
    if (found != d.base_offset) {
      operand.broken = fmt::format("the operand starts {} bytes into its {}-byte swizzle pattern, which the base offset {} does not say", d.start % pattern,
                                   pattern, d.base_offset);
      return operand;
    }
  }
  const int units = 2 * lines;
  operand.units.reserve(static_cast<std::size_t>(units));
  for (int i = 0; i < units; ++i) {
    const bool k_contiguous = contiguous == Contiguous::k;
    const int line = k_contiguous ? i / 2 : i % (lines / kUnitElements) * kUnitElements;
    const int k = k_contiguous ? i % 2 * kUnitElements : i / (lines / kUnitElements);
    const std::uint32_t address =
        swizzled(unit_address(d, contiguous, static_cast<std::uint32_t>(line), static_cast<std::uint32_t>(k)), d.swizzle) - kSharedWindowBase;
    if (address >= shared_bytes) {
      operand.units.clear();
      operand.broken = fmt::format("{} {}, k {} of the operand lies outside the block's shared memory", k_contiguous ? "line" : "lines from", line, k);
      return operand;
    }
    operand.units.push_back(static_cast<std::uint16_t>(address / 16));
  }
  return operand;
}

const OperandUnits& OperandCache::get(std::uint64_t descriptor, Contiguous contiguous, int lines, std::uint32_t shared_bytes) {
  const Key key{descriptor, lines * 2 + (contiguous == Contiguous::k ? 0 : 1)};
  const auto found = units_.find(key);
  if (found != units_.end()) return found->second;
  return units_.emplace(key, gather_units(descriptor, contiguous, lines, shared_bytes)).first->second;
}

std::optional<std::string> check_layout(Block& block, const OperandUnits& operand, int first, int count, std::optional<OperandPlace>& place) {
  const AccessLog& log = block.cluster->log;
  Shadow& shadow = block.shared.shadow();
  const bool k_contiguous = operand.contiguous == Contiguous::k;
  const int groups = operand.lines / kUnitElements;
  place.reset();
  AccessId last = 0;
  const TileOrigin* origin = nullptr;
  for (std::size_t i = 0; i < operand.units.size(); ++i) {
    const int index = static_cast<int>(i);
    const int line = k_contiguous ? index / 2 : index % groups * kUnitElements;
    if (line < first || line >= first + count) continue;
    const int k = k_contiguous ? index % 2 * kUnitElements : index / groups;
    const AccessId writer = shadow.writer(operand.units[i]);
    if (writer == 0) return std::nullopt;
    if (writer != last) {
      if (log[writer].kind != AccessKind::load_write) continue;  // made by the kernel: its own business
      origin = &log.origin(log[writer].origin);
      last = writer;
    }
    const std::uint32_t address = operand.units[i] * kUnitBytes + kSharedWindowBase;
    const std::uint32_t linear = swizzled(address, origin->swizzle) - kSharedWindowBase - origin->base;
    OperandPlace here{origin->tensor, {}};
    std::uint32_t row = linear / origin->row_bytes;
    here.coordinate[0] = origin->coordinate[0] + static_cast<int>(linear % origin->row_bytes / 2);
    for (int axis = 1; axis < kMaxRank; ++axis) {
      here.coordinate[axis] = origin->coordinate[axis] + static_cast<int>(row % origin->box[axis]);
      row /= origin->box[axis];
    }
    if (!place) {
      place = here;
      place->coordinate[0] -= k_contiguous ? k : line - first;
      place->coordinate[1] -= k_contiguous ? line - first : k;
    }
    OperandPlace wanted = *place;
    wanted.coordinate[0] += k_contiguous ? k : line - first;
    wanted.coordinate[1] += k_contiguous ? line - first : k;
    if (here.tensor != wanted.tensor || !std::equal(std::begin(here.coordinate), std::end(here.coordinate), std::begin(wanted.coordinate)))
      return fmt::format("its {} {} at k {} is column {}, row {} of the tensor; the first unit says it should be column {}, row {}",
                         k_contiguous ? "line" : "lines from", line, k, here.coordinate[0], here.coordinate[1], wanted.coordinate[0], wanted.coordinate[1]);
  }
  return std::nullopt;
}

}  // namespace tandem::model
