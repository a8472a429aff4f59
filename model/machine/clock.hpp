// Vector clocks. Every thread, and every ordered stream of asynchronous work, is an entity with a counter; a clock holds the newest event of
// each entity that is known to have happened before. An access at count c of entity e happened before whoever has clock[e] >= c.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace tandem::model {

using Entity = std::uint16_t;
using Clock = std::uint32_t*;  // one counter for each entity
using ClockView = const std::uint32_t*;

void join_clocks(Clock into, ClockView from, int width);

// The clocks of one cluster: rows of equal width that live as long as the bank.
class ClockBank {
 public:
  explicit ClockBank(int entities) : width_((entities + kLine - 1) / kLine * kLine) {}

  int width() const { return width_; }

  Clock allocate() {
    if (left_ == 0) {
      pages_.push_back(std::make_unique<Line[]>(static_cast<std::size_t>(width_ / kLine) * kRowsPerPage));
      next_ = pages_.back()[0].counters;
      left_ = kRowsPerPage;
    }
    --left_;
    return std::exchange(next_, next_ + width_);
  }

  void join(Clock into, ClockView from) const { join_clocks(into, from, width_); }
  void clear(Clock clock) const { std::memset(clock, 0, static_cast<std::size_t>(width_) * sizeof(std::uint32_t)); }
  void copy(Clock into, ClockView from) const { std::memcpy(into, from, static_cast<std::size_t>(width_) * sizeof(std::uint32_t)); }

 private:
  static constexpr int kLine = 16;
  static constexpr int kRowsPerPage = 64;
  struct alignas(64) Line {
    std::uint32_t counters[kLine];
  };

  int width_;
  std::vector<std::unique_ptr<Line[]>> pages_;
  Clock next_ = nullptr;
  int left_ = 0;
};

}  // namespace tandem::model
