#include "backends/cpu/scratch.hpp"

#include <algorithm>
#include <utility>

namespace tandem::cpu {

ScratchPool::Loan::Loan(ScratchPool& pool, int count, std::size_t floats) : pool_(pool) {
  const auto wanted = static_cast<std::size_t>(count);
  buffers_.reserve(wanted);
  {
    const std::lock_guard lock(pool_.mutex_);
    while (buffers_.size() < wanted && !pool_.free_.empty()) {
      buffers_.push_back(std::move(pool_.free_.back()));
      pool_.free_.pop_back();
    }
    // Room to give all of them back without an allocation.
    pool_.free_.reserve(pool_.free_.size() + wanted);
  }
  for (Buffer& buffer : buffers_) {
    if (buffer.floats() < floats) {
      buffer = Buffer();
      buffer = Buffer(floats);
    }
  }
  while (buffers_.size() < wanted) buffers_.emplace_back(floats);
}

ScratchPool::Loan::~Loan() {
  const std::lock_guard lock(pool_.mutex_);
  for (Buffer& buffer : buffers_) {
    if (pool_.free_.size() < pool_.free_.capacity()) pool_.free_.push_back(std::move(buffer));
  }
}

}  // namespace tandem::cpu
