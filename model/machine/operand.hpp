// Operands of WGMMA in shared memory: the descriptor, decoded as the hardware does, and the 16-byte units that it gathers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "machine/tensor_map.hpp"

namespace tandem::model {

struct Block;

struct OperandDescriptor {
  std::uint32_t start = 0;    // bytes in the shared window
  std::uint32_t leading = 0;  // bytes
  std::uint32_t stride = 0;   // bytes
  std::uint32_t base_offset = 0;
  Swizzle swizzle = Swizzle::none;

  static OperandDescriptor decode(std::uint64_t bits);
};

// Which of an operand's two indices is contiguous: the one that is summed over, or the other.
enum class Contiguous { k, other };

// One k-step of an operand: `lines` rows of A or columns of B, 32 bytes of k each.
// k contiguous: unit [line][half of k]; else unit [k][line / 8]: eight 16-bit elements a unit either way.
struct OperandUnits {
  Contiguous contiguous = Contiguous::k;
  int lines = 0;
  std::vector<std::uint16_t> units;   // index in shared memory, in 16 bytes; empty if `broken`
  std::optional<std::string> broken;  // the rule that the descriptor breaks
};

OperandUnits gather_units(std::uint64_t descriptor, Contiguous contiguous, int lines, std::uint32_t shared_bytes);

// A block's kernel makes the same few descriptors again and again.
class OperandCache {
 public:
  const OperandUnits& get(std::uint64_t descriptor, Contiguous contiguous, int lines, std::uint32_t shared_bytes);

 private:
  struct Key {
    std::uint64_t descriptor;
    int shape;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      return std::hash<std::uint64_t>()(key.descriptor * 0x9e3779b97f4a7c15ull ^ static_cast<unsigned>(key.shape));
    }
  };
  std::unordered_map<Key, OperandUnits, Hash> units_;
};

// Where in its tensor the first unit of an operand came from, of those that came by TMA: a kernel may have made the others.
struct OperandPlace {
  const void* tensor = nullptr;
  int coordinate[5] = {};
};

// Checks that lines [first, first + count) of the operand are lines of one matrix: neighbours in the operand are neighbours in the tensor
// that TMA loaded them from. Returns what is wrong.
std::optional<std::string> check_layout(Block& block, const OperandUnits& operand, int first, int count, std::optional<OperandPlace>& place);

}  // namespace tandem::model
