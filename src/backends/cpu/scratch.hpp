// Buffers that runs borrow, so that a run allocates only until every thread has had one of its size.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

namespace tandem::cpu {

class ScratchPool {
 public:
  class Buffer {
   public:
    Buffer() = default;
    explicit Buffer(std::size_t floats) : data_(static_cast<float*>(::operator new(floats * sizeof(float), kAlignment))), floats_(floats) {}

    float* data() const { return data_.get(); }
    std::size_t floats() const { return floats_; }

   private:
    static constexpr std::align_val_t kAlignment{128};
    struct Delete {
      void operator()(float* data) const { ::operator delete(data, kAlignment); }
    };
    std::unique_ptr<float, Delete> data_;
    std::size_t floats_ = 0;
  };

  // Gives its buffers back at the end.
  class Loan {
   public:
    Loan(ScratchPool& pool, int count, std::size_t floats);
    ~Loan();
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;

    float* operator[](int i) const { return buffers_[static_cast<std::size_t>(i)].data(); }

   private:
    ScratchPool& pool_;
    std::vector<Buffer> buffers_;
  };

 private:
  std::mutex mutex_;
  std::vector<Buffer> free_;
};

}  // namespace tandem::cpu
