#include "machine/global_memory.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::model {
namespace {

constexpr std::int64_t kGranule = 2;

}  // namespace

void GlobalMemory::add(const GlobalTensor& tensor) {
  tensors_.push_back(tensor);
  if (tensor.row_bytes == 0) return;
  Row row;
  row.tensor = static_cast<int>(tensors_.size() - 1);
  for (std::int64_t i = 0; i < tensor.extent[0]; ++i) {
    for (std::int64_t j = 0; j < tensor.extent[1]; ++j) {
      for (std::int64_t k = 0; k < tensor.extent[2]; ++k) {
        row.index = {static_cast<std::int32_t>(i), static_cast<std::int32_t>(j), static_cast<std::int32_t>(k)};
        row.begin = reinterpret_cast<std::uintptr_t>(tensor.data) +
                    static_cast<std::uintptr_t>(i * tensor.stride_bytes[0] + j * tensor.stride_bytes[1] + k * tensor.stride_bytes[2]);
        row.end = row.begin + static_cast<std::uintptr_t>(tensor.row_bytes);
        if (tensor.access == GlobalAccess::write_once) {
          row.tags = writers_.size();
          writers_.resize(writers_.size() + static_cast<std::size_t>((tensor.row_bytes + kGranule - 1) / kGranule));
        }
        rows_.push_back(row);
      }
    }
  }
  sorted_ = false;
}

void GlobalMemory::sort() const {
  if (sorted_) return;
  std::sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) { return a.begin != b.begin ? a.begin < b.begin : a.end > b.end; });
  // A stride of 0 gives the same row many times.
  rows_.erase(std::unique(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) { return a.begin == b.begin && a.tensor == b.tensor; }), rows_.end());
  sorted_ = true;
}

const GlobalMemory::Row* GlobalMemory::find(std::uintptr_t address) const {
  sort();
  auto after = std::upper_bound(rows_.begin(), rows_.end(), address, [](std::uintptr_t value, const Row& row) { return value < row.begin; });
  // Rows of one tensor may overlap (strides shorter than a row), so the nearest few are tried.
  for (int tries = 0; tries < 4 && after != rows_.begin(); ++tries)
    if (address < (--after)->end) return &*after;
  return nullptr;
}

std::string GlobalMemory::describe(const Row& row, std::uintptr_t address) const {
  const GlobalTensor& tensor = tensors_[static_cast<std::size_t>(row.tensor)];
  std::string out = tensor.name + "[";
  for (std::size_t i = 0; i < 3; ++i)
    if (tensor.index_names[i][0] != '\0') out += fmt::format("{} {}, ", tensor.index_names[i], row.index[i]);
  return out + fmt::format("byte {}]", address - row.begin);
}

GlobalMemory::Problem GlobalMemory::outside(std::uintptr_t address, std::int64_t bytes, const char* verb) const {
  sort();
  const Row* nearest = nullptr;
  std::uintptr_t distance = 0;
  for (const Row& row : rows_) {
    const std::uintptr_t away = address >= row.end ? address - row.end + 1 : row.begin >= address ? row.begin - address : 0;
    if (nearest == nullptr || away < distance) {
      nearest = &row;
      distance = away;
    }
  }
  if (nearest == nullptr || distance > 1u << 20) return {true, "global memory", fmt::format("{} of {} bytes far from every tensor of the call", verb, bytes)};
  return {true, tensors_[static_cast<std::size_t>(nearest->tensor)].name,
          fmt::format("{} of {} bytes, {} bytes {} {}", verb, bytes, distance, address >= nearest->end ? "past the last byte of" : "before the first byte of",
                      describe(*nearest, nearest->begin))};
}

std::optional<GlobalMemory::Problem> GlobalMemory::check_read(const void* p, std::int64_t bytes) const {
  std::uintptr_t address = reinterpret_cast<std::uintptr_t>(p);
  const std::uintptr_t end = address + static_cast<std::uintptr_t>(bytes);
  while (address < end) {
    const Row* row = find(address);
    if (row == nullptr) return outside(address, static_cast<std::int64_t>(end - address), "read");
    address = row->end;
  }
  return std::nullopt;
}

std::optional<GlobalMemory::Problem> GlobalMemory::check_write(void* p, std::int64_t bytes, GlobalWriter writer) {
  std::uintptr_t address = reinterpret_cast<std::uintptr_t>(p);
  const std::uintptr_t end = address + static_cast<std::uintptr_t>(bytes);
  while (address < end) {
    const Row* row = find(address);
    if (row == nullptr) return outside(address, static_cast<std::int64_t>(end - address), "write");
    const GlobalTensor& tensor = tensors_[static_cast<std::size_t>(row->tensor)];
    if (tensor.access == GlobalAccess::read_only) return Problem{true, tensor.name, fmt::format("write to {}, which is an input", describe(*row, address))};
    const std::uintptr_t stop = std::min(end, row->end);
    if (tensor.access == GlobalAccess::write_once) {
      for (std::uintptr_t at = address; at < stop; at += kGranule) {
        GlobalWriter& before = writers_[row->tags + (at - row->begin) / kGranule];
        if (before.block >= 0)
          return Problem{false, tensor.name,
                         fmt::format("{} is written a second time; block {} thread {} has written it", describe(*row, at), before.block, before.thread)};
        before = writer;
      }
    }
    address = stop;
  }
  return std::nullopt;
}

std::optional<GlobalMemory::Problem> GlobalMemory::find_unwritten() const {
  sort();
  for (const Row& row : rows_) {
    const GlobalTensor& tensor = tensors_[static_cast<std::size_t>(row.tensor)];
    if (tensor.access != GlobalAccess::write_once) continue;
    for (std::int64_t at = 0; at < tensor.row_bytes; at += kGranule)
      if (writers_[row.tags + static_cast<std::size_t>(at / kGranule)].block < 0)
        return Problem{false, tensor.name, fmt::format("{} was never written", describe(row, row.begin + static_cast<std::uintptr_t>(at)))};
  }
  return std::nullopt;
}

}  // namespace tandem::model
