// The global memory that a launch may touch, row by row: everything else is out of bounds, also where another tensor lies.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace tandem::model {

enum class GlobalAccess {
  read_only,
  write_once,  // an output: every element is written exactly once
  read_write,  // a workspace
};

// A tensor of up to three outer dimensions, each of its rows contiguous.
struct GlobalTensor {
  std::string name;
  void* data = nullptr;
  std::array<std::int64_t, 3> extent{1, 1, 1};
  std::array<std::int64_t, 3> stride_bytes{};
  std::int64_t row_bytes = 0;
  GlobalAccess access = GlobalAccess::read_only;
  std::array<const char*, 3> index_names{"", "", ""};  // "batch", "query", "head"
};

// Who wrote: block and thread, for the report.
struct GlobalWriter {
  int block = -1;
  int thread = -1;
};

class GlobalMemory {
 public:
  void add(const GlobalTensor& tensor);

  struct Problem {
    bool out_of_bounds = false;  // else: written before
    std::string object;
    std::string message;
  };

  // nullopt if all of [p, p + bytes) may be read.
  std::optional<Problem> check_read(const void* p, std::int64_t bytes) const;
  // The same for a write, which is remembered.
  std::optional<Problem> check_write(void* p, std::int64_t bytes, GlobalWriter writer);

  // The first element of an output that nobody wrote.
  std::optional<Problem> find_unwritten() const;

 private:
  struct Row {
    std::uintptr_t begin = 0, end = 0;
    int tensor = 0;
    std::array<std::int32_t, 3> index{};
    std::size_t tags = 0;  // of its 2-byte granules, in writers_
  };
  const Row* find(std::uintptr_t address) const;
  std::string describe(const Row& row, std::uintptr_t address) const;
  Problem outside(std::uintptr_t address, std::int64_t bytes, const char* verb) const;
  void sort() const;

  std::deque<GlobalTensor> tensors_;
  mutable std::vector<Row> rows_;  // by address, once sorted
  mutable bool sorted_ = true;
  std::vector<GlobalWriter> writers_;
};

}  // namespace tandem::model
