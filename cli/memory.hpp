// The memory that a backend reaches, and the clock that its work is measured with.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace tandem::cli {

// A piece of memory; freed with it.
class Buffer {
 public:
  virtual ~Buffer() = default;
  void* data() const { return data_; }
  std::size_t size() const { return size_; }

 protected:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

class MemorySpace {
 public:
  virtual ~MemorySpace() = default;

  // At a multiple of 256 bytes. Fails with a sentence where there is not enough.
  virtual std::unique_ptr<Buffer> allocate(std::size_t bytes) = 0;
  virtual void write(Buffer& target, std::span<const std::byte> source) = 0;
  virtual void read(std::span<std::byte> target, const Buffer& source) = 0;

  // What launches are given as their stream.
  virtual void* stream() const { return nullptr; }
  virtual void synchronize() {}

  // Seconds that `launch` takes, by the clock of the device.
  virtual double time(const std::function<void()>& launch) = 0;
};

// Host memory for "cpu" and "model", memory of the device for "hopper".
std::unique_ptr<MemorySpace> memory_of(std::string_view backend, int device);

}  // namespace tandem::cli
