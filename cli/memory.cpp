#include "memory.hpp"

#include <chrono>
#include <cstring>
#include <new>

#include "device_memory.hpp"
#include "failure.hpp"

namespace tandem::cli {
namespace {

constexpr std::align_val_t kAlignment{256};

class HostBuffer final : public Buffer {
 public:
  explicit HostBuffer(std::size_t bytes) : memory_(static_cast<std::byte*>(::operator new(bytes, kAlignment))) {
    data_ = memory_.get();
    size_ = bytes;
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }
  };
  std::unique_ptr<std::byte, Free> memory_;
};

class HostMemory final : public MemorySpace {
 public:
  std::unique_ptr<Buffer> allocate(std::size_t bytes) override { return std::make_unique<HostBuffer>(bytes); }
  void write(Buffer& target, std::span<const std::byte> source) override {
    if (!source.empty()) std::memcpy(target.data(), source.data(), source.size());
  }
  void read(std::span<std::byte> target, const Buffer& source) override {
    if (!target.empty()) std::memcpy(target.data(), source.data(), target.size());
  }
  double time(const std::function<void()>& launch) override {
    const auto start = std::chrono::steady_clock::now();
    launch();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
};

}  // namespace

std::unique_ptr<MemorySpace> memory_of(std::string_view backend, int device) {
  if (backend == "hopper") return make_device_memory(device);
  return std::make_unique<HostMemory>();
}

}  // namespace tandem::cli
