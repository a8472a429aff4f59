#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "support/device.hpp"
#include "support/tensor.hpp"

namespace tandem::testing {
namespace {

class HostDevice final : public TestDevice {
 public:
  ~HostDevice() override {
    EXPECT_TRUE(blocks_.empty()) << blocks_.size() << " allocations were not freed";
    while (!blocks_.empty()) free(blocks_.begin()->first);
  }

  void* allocate(std::size_t bytes) override {
    constexpr std::size_t kAlignment = 16;
    const std::size_t page = page_bytes();
    const std::size_t aligned = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    const std::size_t inside = (aligned + page) / page * page;  // leaves room for guard bytes before the block
    Block block{nullptr, inside + 2 * page, bytes, true};
    block.mapping = static_cast<std::byte*>(map(block.mapping_bytes, PROT_NONE));
    if (block.mapping == nullptr) throw std::bad_alloc();
    if (mprotect(block.mapping + page, inside, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    std::memset(block.mapping + page, static_cast<int>(kPoison), inside);
    return keep(block.mapping + page + inside - aligned, block);
  }

  void* allocate_untouched(std::size_t bytes) override {
    Block block{static_cast<std::byte*>(map(bytes, PROT_READ | PROT_WRITE)), bytes, bytes, false};
    return block.mapping == nullptr ? nullptr : keep(block.mapping, block);
  }

  void free(void* memory) override {
    const Block block = take(memory);
    if (block.guarded) {
      const std::byte* const data = static_cast<std::byte*>(memory);
      const std::byte* const begin = block.mapping + page_bytes();
      const std::byte* const end = block.mapping + block.mapping_bytes - page_bytes();
      EXPECT_TRUE(is_poison(begin, data)) << "memory before an allocation of " << block.bytes << " bytes was written";
      EXPECT_TRUE(is_poison(data + block.bytes, end)) << "memory after an allocation of " << block.bytes << " bytes was written";
    }
    munmap(block.mapping, block.mapping_bytes);
  }

  void upload(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void synchronize() override {}

 private:
  struct Block {
    std::byte* mapping;
    std::size_t mapping_bytes;
    std::size_t bytes;
    bool guarded;
  };

  static std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

  static void* map(std::size_t bytes, int protection) {
    void* const memory = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? nullptr : memory;
  }

  static void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes != 0) std::memcpy(to, from, bytes);
  }

  static bool is_poison(const std::byte* begin, const std::byte* end) {
    for (const std::byte* byte = begin; byte != end; ++byte) {
      if (*byte != kPoison) return false;
    }
    return true;
  }

  void* keep(std::byte* data, const Block& block) {
    const std::lock_guard lock(mutex_);
    blocks_.emplace(data, block);
    return data;
  }

  Block take(void* memory) {
    const std::lock_guard lock(mutex_);
    const Block block = blocks_.at(memory);
    blocks_.erase(memory);
    return block;
  }

  std::mutex mutex_;
  std::map<void*, Block> blocks_;
};

}  // namespace

std::unique_ptr<TestDevice> make_host_device() { return std::make_unique<HostDevice>(); }

}  // namespace tandem::testing
