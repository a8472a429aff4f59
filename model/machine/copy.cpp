#include "machine/copy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "machine/machine.hpp"
#include "machine/mbarrier.hpp"

namespace tandem::model {
namespace {

struct GlobalRow {
  unsigned char* address = nullptr;  // nullptr: the whole row is outside the tensor
  std::int64_t skip = 0;             // bytes of the box's row before the tensor begins
  std::int64_t bytes = 0;            // bytes inside
};

GlobalRow locate(const Copy& copy, std::uint32_t row) {
  const DecodedMap& map = copy.map;
  std::int64_t offset = 0;
  for (std::size_t axis = 1; axis < static_cast<std::size_t>(map.rank); ++axis) {
    const std::int64_t at = copy.coordinate[axis] + static_cast<std::int64_t>(row % map.box[axis]);
    row /= map.box[axis];
    if (at < 0 || at >= static_cast<std::int64_t>(map.extent[axis])) return {};
    offset += at * static_cast<std::int64_t>(map.stride_bytes[axis]);
  }
  const std::int64_t first = copy.coordinate[0];
  const std::int64_t begin = std::max<std::int64_t>(first, 0);
  const std::int64_t end = std::min<std::int64_t>(first + map.box[0], static_cast<std::int64_t>(map.extent[0]));
  if (begin >= end) return {};
  GlobalRow out;
  out.address = const_cast<unsigned char*>(map.base) + offset + begin * map.element_bytes;
  out.skip = (begin - first) * map.element_bytes;
  out.bytes = (end - begin) * map.element_bytes;
  return out;
}

// A row of the box in shared memory is 16-byte pieces, each where the swizzle puts it.
template <class Move>
void for_pieces(const Copy& copy, std::uint32_t row, Move&& move) {
  const std::uint32_t row_bytes = copy.map.row_bytes();
  for (std::uint32_t at = 0; at < row_bytes; at += kUnitBytes) {
    const std::uint32_t linear = copy.offset + row * copy.map.shared_row_bytes() + at + kSharedWindowBase;
    move(swizzled(linear, copy.map.swizzle) - kSharedWindowBase, at);
  }
}

void fail_global(Machine& machine, const Copy& copy, const GlobalMemory::Problem& problem) {
  machine.fail(problem.out_of_bounds ? Fault::global_out_of_bounds : Fault::global_overwrite, problem.object,
               fmt::format("TMA {} of {} at ({}): {}", copy.load ? "load" : "store", machine.describe_map(copy.map_address),
                           fmt::join(copy.coordinate.begin(), copy.coordinate.begin() + copy.map.rank, ", "), problem.message),
               copy.issuer);
}

bool step_load(Machine& machine, Copy& copy) {
  const std::uint32_t rows = copy.map.rows();
  const std::uint32_t end = std::min(rows, copy.next_row + copy.rows_a_step);
  const std::uint32_t row_bytes = copy.map.row_bytes();
  unsigned char* const shared = copy.block->shared.bytes();
  std::vector<unsigned char>& line = copy.staged;
  const std::uint32_t first = copy.next_row;
  for (; copy.next_row < end; ++copy.next_row) {
    line.assign(row_bytes, 0);  // what lies outside the tensor reads as zero
    const GlobalRow row = locate(copy, copy.next_row);
    if (row.address != nullptr) {
      copy.inside = true;
      if (auto problem = machine.memory.check_read(row.address, row.bytes)) fail_global(machine, copy, *problem);
      std::memcpy(line.data() + row.skip, row.address, static_cast<std::size_t>(row.bytes));
    }
    for_pieces(copy, copy.next_row, [&](std::uint32_t offset, std::uint32_t at) { std::memcpy(shared + offset, line.data() + at, kUnitBytes); });
  }
  // For a box that lies wholly outside, the H200 reads the beginning of the map: an illegal address where that is no memory. Boxes beyond the last column are
  // let pass: the model plays narrow problems on kernels whose tiles are wider by whole chunks, which the backend for GPUs never does.
  if (copy.next_row == rows && !copy.inside && copy.coordinate[0] < static_cast<std::int64_t>(copy.map.extent[0]))
    if (auto problem = machine.memory.check_read(copy.map.base, 1)) fail_global(machine, copy, *problem);
  Mbarrier& barrier = copy.block->mbarriers.at(copy.barrier);
  complete_bytes(machine, *copy.block, barrier, (end - first) * row_bytes, copy.phase, *copy.issuer);
  return copy.next_row == rows;
}

// First all rows are read, in steps; then, in a step of its own, they are written.
bool step_store(Machine& machine, Copy& copy) {
  const std::uint32_t rows = copy.map.rows();
  const std::uint32_t row_bytes = copy.map.row_bytes();
  if (copy.next_row < rows) {
    const std::uint32_t end = std::min(rows, copy.next_row + copy.rows_a_step);
    copy.staged.resize(static_cast<std::size_t>(rows) * row_bytes);
    const unsigned char* const shared = copy.block->shared.bytes();
    for (; copy.next_row < end; ++copy.next_row)
      for_pieces(copy, copy.next_row, [&](std::uint32_t offset, std::uint32_t at) {
        std::memcpy(copy.staged.data() + copy.next_row * row_bytes + at, shared + offset, kUnitBytes);
      });
    if (copy.next_row == rows) {
      --copy.issuer->bulk[copy.group].unread;
      machine.wake(copy.issuer->bulk_waiters);
    }
    return false;
  }
  for (std::uint32_t i = 0; i < rows; ++i) {
    const GlobalRow row = locate(copy, i);
    if (row.address == nullptr) continue;
    if (auto problem = machine.memory.check_write(row.address, row.bytes, {copy.block->index, copy.issuer->index})) fail_global(machine, copy, *problem);
    std::memcpy(row.address, copy.staged.data() + i * row_bytes + row.skip, static_cast<std::size_t>(row.bytes));
  }
  return true;
}

}  // namespace

void for_pieces_written(const Copy& copy, const std::function<void(std::uint32_t, std::uint32_t)>& visit) {
  if (copy.map.fills_rows()) return visit(copy.offset, copy.map.bytes());
  for (std::uint32_t row = 0; row < copy.map.rows(); ++row) for_pieces(copy, row, [&](std::uint32_t offset, std::uint32_t) { visit(offset, kUnitBytes); });
}

void for_pieces_inside(const Copy& copy, const std::function<void(std::uint32_t, std::uint32_t)>& visit) {
  for (std::uint32_t i = 0; i < copy.map.rows(); ++i) {
    const GlobalRow row = locate(copy, i);
    if (row.address == nullptr) continue;
    for_pieces(copy, i, [&](std::uint32_t offset, std::uint32_t at) {
      const std::int64_t begin = std::max<std::int64_t>(at, row.skip), end = std::min<std::int64_t>(at + kUnitBytes, row.skip + row.bytes);
      if (begin < end) visit(offset + static_cast<std::uint32_t>(begin - at), static_cast<std::uint32_t>(end - begin));
    });
  }
}

bool step(Machine& machine, Copy& copy) { return copy.load ? step_load(machine, copy) : step_store(machine, copy); }

}  // namespace tandem::model
