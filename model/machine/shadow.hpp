// The race detector: for every 16 bytes of a block's shared memory the last write and the reads since, each with its place in the
// happens-before order. A hand-off that is missing is seen whatever the order in which this launch happened to run.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "machine/access.hpp"

namespace tandem::model {

constexpr std::uint32_t kUnitBytes = 16;

// Times at which each thread of a cluster executed fence.proxy.async, in the thread's own count.
class FenceTable {
 public:
  explicit FenceTable(int threads) : times_(static_cast<std::size_t>(threads)) {}

  void add(int thread, std::uint32_t time) { times_[static_cast<std::size_t>(thread)].push_back(time); }

  // Whether `thread` fenced at or after `time`, and whoever has `clock` knows of it.
  bool covers(int thread, std::uint32_t time, ClockView clock) const;

 private:
  std::vector<std::vector<std::uint32_t>> times_;
};

struct Conflict {
  enum class Kind { none, uninitialised, unordered, unfenced };
  Kind kind = Kind::none;
  std::uint32_t offset = 0;
  AccessId other = 0;

  explicit operator bool() const { return kind != Kind::none; }
};

class Shadow {
 public:
  Shadow(std::uint32_t bytes, AccessLog& log, const FenceTable& fences) : log_(log), fences_(fences), cells_(bytes / kUnitBytes) {}

  // `access` touches [offset, offset + bytes). `clock` is what its performer knows.
  Conflict read(std::uint32_t offset, std::uint32_t bytes, AccessId access, ClockView clock);
  Conflict write(std::uint32_t offset, std::uint32_t bytes, AccessId access, ClockView clock);

  // The same for whole units, by index: what WGMMA operands are made of.
  Conflict read_units(std::span<const std::uint16_t> units, AccessId access, ClockView clock);

  // The write that a whole unit holds, 0 if none or if it was written in parts.
  AccessId writer(std::uint32_t unit) const { return cells_[unit].write == kSplit ? 0 : cells_[unit].write; }

 private:
  struct Cell {
    AccessId write = 0;
    ReadSet reads = 0;
  };
  static constexpr AccessId kSplit = 0xffffffffu;  // `reads` is then an index into splits_

  Conflict read_cell(Cell& cell, std::uint32_t offset, AccessId access, ClockView clock);
  Conflict write_cell(Cell& cell, std::uint32_t offset, AccessId access, ClockView clock);
  bool ordered(const Access& earlier, ClockView clock) const { return clock[earlier.entity] >= earlier.time; }
  std::array<Cell, kUnitBytes>& split(Cell& cell);
  template <class Visit>
  Conflict visit(std::uint32_t offset, std::uint32_t bytes, Visit&& visit);

  AccessLog& log_;
  const FenceTable& fences_;
  std::vector<Cell> cells_;
  std::vector<std::array<Cell, kUnitBytes>> splits_;

  // The last transition of a read set: neighbouring cells mostly make the same one.
  ReadSet memo_from_ = 0, memo_to_ = 0;
  AccessId memo_read_ = 0;
};

}  // namespace tandem::model
