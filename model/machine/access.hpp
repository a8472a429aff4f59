// Accesses to shared memory as the race detector remembers them.
#pragma once

#include <cstdint>
#include <vector>

#include "machine/clock.hpp"
#include "machine/tensor_map.hpp"

namespace tandem::model {

enum class AccessKind : std::uint8_t {
  generic_read,   // ld, ldmatrix
  generic_write,  // st, stmatrix
  load_write,     // TMA load
  store_read,     // TMA store
  wgmma_read,     // operand of a WGMMA
};

constexpr bool is_async(AccessKind kind) { return kind >= AccessKind::load_write; }

// Where the bytes of a TMA load came from: what a WGMMA operand is checked against.
struct TileOrigin {
  const void* map = nullptr;
  const void* tensor = nullptr;  // where the map begins: maps of one tensor may differ in their boxes
  std::uint32_t base = 0;        // offset of the box in shared memory
  std::uint32_t row_bytes = 0;
  Swizzle swizzle = Swizzle::none;
  int coordinate[kMaxRank] = {};
  std::uint32_t box[kMaxRank] = {};
};

struct Access {
  AccessKind kind = AccessKind::generic_read;
  Entity entity = 0;  // happened before whoever has clock[entity] >= time
  std::uint32_t time = 0;
  int thread = 0;                 // of the cluster: who did it or issued it; a generic write must be fenced by this thread ...
  std::uint32_t thread_time = 0;  // ... at this time of its own or later
  const void* pc = nullptr;
  std::uint32_t origin = 0;  // TMA loads: index of the TileOrigin
};

// Indices, 0 for none: a shadow cell holds two of them.
using AccessId = std::uint32_t;
using ReadSet = std::uint32_t;

// The accesses of a cluster, and the sets of reads that came after one write. A set is a list that grows at its head and shares its tail.
class AccessLog {
 public:
  AccessLog() : accesses_(1), nodes_(1), origins_(1) {}

  AccessId add(const Access& access) {
    accesses_.push_back(access);
    return static_cast<AccessId>(accesses_.size() - 1);
  }
  const Access& operator[](AccessId id) const { return accesses_[id]; }

  std::uint32_t add_origin(const TileOrigin& origin) {
    origins_.push_back(origin);
    return static_cast<std::uint32_t>(origins_.size() - 1);
  }
  const TileOrigin& origin(std::uint32_t index) const { return origins_[index]; }

  // The set with one more read. A newer read of an entity stands for its older ones.
  ReadSet with(ReadSet set, AccessId read);

  // The first read of the set for which `ordered` says no; 0 if there is none.
  template <class Ordered>
  AccessId first_unordered(ReadSet set, Ordered&& ordered) const {
    for (; set != 0; set = nodes_[set].rest)
      if (!ordered(accesses_[nodes_[set].read])) return nodes_[set].read;
    return 0;
  }

 private:
  struct Node {
    ReadSet rest = 0;
    AccessId read = 0;
    std::uint32_t length = 0;
  };
  ReadSet push(ReadSet rest, AccessId read);
  ReadSet compact(ReadSet set);

  std::vector<Access> accesses_;
  std::vector<Node> nodes_;
  std::vector<TileOrigin> origins_;
};

}  // namespace tandem::model
