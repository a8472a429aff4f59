#include "machine/shadow.hpp"

#include <algorithm>

namespace tandem::model {

bool FenceTable::covers(int thread, std::uint32_t time, ClockView clock) const {
  const auto& times = times_[static_cast<std::size_t>(thread)];
  const auto first = std::lower_bound(times.begin(), times.end(), time);
  return first != times.end() && *first <= clock[thread];
}

std::array<Shadow::Cell, kUnitBytes>& Shadow::split(Cell& cell) {
  if (cell.write != kSplit) {
    splits_.emplace_back();
    splits_.back().fill(cell);
    cell = {kSplit, static_cast<ReadSet>(splits_.size() - 1)};
  }
  return splits_[cell.reads];
}

Conflict Shadow::read_cell(Cell& cell, std::uint32_t offset, AccessId access, ClockView clock) {
  if (cell.write == 0) return {Conflict::Kind::uninitialised, offset, 0};
  const Access& write = log_[cell.write];
  if (!ordered(write, clock)) return {Conflict::Kind::unordered, offset, cell.write};
  if (write.kind == AccessKind::generic_write && is_async(log_[access].kind) && !fences_.covers(write.thread, write.thread_time, clock))
    return {Conflict::Kind::unfenced, offset, cell.write};
  if (cell.reads != memo_from_ || memo_read_ != access) {
    memo_to_ = log_.with(cell.reads, access);
    memo_from_ = cell.reads;
    memo_read_ = access;
  }
  cell.reads = memo_to_;
  return {};
}

Conflict Shadow::write_cell(Cell& cell, std::uint32_t offset, AccessId access, ClockView clock) {
  const bool async = is_async(log_[access].kind);
  if (cell.write != 0) {
    const Access& write = log_[cell.write];
    if (!ordered(write, clock)) return {Conflict::Kind::unordered, offset, cell.write};
    if (write.kind == AccessKind::generic_write && async && !fences_.covers(write.thread, write.thread_time, clock))
      return {Conflict::Kind::unfenced, offset, cell.write};
  }
  const AccessId reader = log_.first_unordered(cell.reads, [&](const Access& read) { return ordered(read, clock); });
  if (reader != 0) return {Conflict::Kind::unordered, offset, reader};
  cell = {access, 0};
  return {};
}

template <class Visit>
Conflict Shadow::visit(std::uint32_t offset, std::uint32_t bytes, Visit&& visit) {
  const std::uint32_t end = offset + bytes;
  while (offset < end) {
    Cell& cell = cells_[offset / kUnitBytes];
    const std::uint32_t first = offset % kUnitBytes;
    const std::uint32_t last = std::min(kUnitBytes, first + end - offset);
    if (first == 0 && last == kUnitBytes && cell.write != kSplit) {
      if (Conflict conflict = visit(cell, offset)) return conflict;
    } else {
      std::array<Cell, kUnitBytes>& bytes_of_cell = split(cell);
      for (std::uint32_t i = first; i < last; ++i)
        if (Conflict conflict = visit(bytes_of_cell[i], offset - first + i)) return conflict;
    }
    offset += last - first;
  }
  return {};
}

Conflict Shadow::read(std::uint32_t offset, std::uint32_t bytes, AccessId access, ClockView clock) {
  return visit(offset, bytes, [&](Cell& cell, std::uint32_t at) { return read_cell(cell, at, access, clock); });
}

Conflict Shadow::write(std::uint32_t offset, std::uint32_t bytes, AccessId access, ClockView clock) {
  return visit(offset, bytes, [&](Cell& cell, std::uint32_t at) { return write_cell(cell, at, access, clock); });
}

Conflict Shadow::read_units(std::span<const std::uint16_t> units, AccessId access, ClockView clock) {
  AccessId good = 0;  // a write that was found in order
  for (const std::uint16_t unit : units) {
    Cell& cell = cells_[unit];
    if (cell.write != 0 && cell.write == good && cell.reads == memo_from_ && memo_read_ == access) {
      cell.reads = memo_to_;
      continue;
    }
    if (cell.write == kSplit) {
      if (Conflict conflict = read(unit * kUnitBytes, kUnitBytes, access, clock)) return conflict;
    } else {
      if (Conflict conflict = read_cell(cell, unit * kUnitBytes, access, clock)) return conflict;
      good = cell.write;
    }
  }
  return {};
}

}  // namespace tandem::model
