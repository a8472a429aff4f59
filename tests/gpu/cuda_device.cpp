#include "cuda_device.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "fenced_memory.hpp"

namespace tandem::testing {
namespace {

void expect_success(CUresult result, const char* call) { EXPECT_EQ(result, CUDA_SUCCESS) << cuda::failure(*cuda::driver().value(), result, call).message(); }

class CudaDevice final : public TestDevice {
 public:
  CudaDevice(const CudaSession& session, int ordinal) : driver_(*session.driver), context_(session.context), fenced_(ordinal) {
    const cuda::ContextScope scope(driver_, context_);
    expect_success(driver_.stream_create(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  }

  ~CudaDevice() override {
    EXPECT_TRUE(blocks_.empty()) << blocks_.size() << " allocations were not freed";
    const cuda::ContextScope scope(driver_, context_);
    driver_.stream_destroy(stream_);
  }

  void* allocate(std::size_t bytes) override {
    const cuda::ContextScope scope(driver_, context_);
    const FencedMemory::Block pages = fenced_.take(std::max<std::size_t>(bytes, 1));
    if (pages.base == 0) throw std::bad_alloc();
    expect_success(driver_.memset_d8_async(pages.base, 0xff, pages.bytes, stream_), "cuMemsetD8Async");
    synchronize();
    // In turn directly behind the fence and directly before it.
    const bool behind = allocations_++ % 2 == 0;
    return keep(behind ? pages.base : pages.base + pages.bytes - (bytes + kAlignment - 1) / kAlignment * kAlignment, {pages, bytes, true});
  }

  void* allocate_untouched(std::size_t bytes) override {
    const cuda::ContextScope scope(driver_, context_);
    CUdeviceptr base = 0;
    if (driver_.mem_alloc(&base, bytes) != CUDA_SUCCESS) return nullptr;
    return keep(base, {{base, bytes}, bytes, false});
  }

  void free(void* memory) override {
    const cuda::ContextScope scope(driver_, context_);
    Block block{};
    {
      const std::lock_guard lock(mutex_);
      const auto found = blocks_.find(memory);
      ASSERT_NE(found, blocks_.end()) << "freeing memory that was not allocated";
      block = found->second;
      blocks_.erase(found);
    }
    if (!block.fenced) {
      expect_success(driver_.mem_free(block.pages.base), "cuMemFree");
      return;
    }
    // What of its pages is not the allocation, as far as a kernel that goes astray by a little would reach.
    const auto begin = reinterpret_cast<CUdeviceptr>(memory), end = begin + block.bytes, pages_end = block.pages.base + block.pages.bytes;
    for (const auto& [from, to] :
         {std::pair(begin - std::min(kGuard, begin - block.pages.base), begin), std::pair(end, end + std::min(kGuard, pages_end - end))}) {
      std::vector<unsigned char> guard(to - from);
      download(guard.data(), reinterpret_cast<const void*>(from), guard.size());
      if (std::ranges::any_of(guard, [](unsigned char byte) { return byte != 0xff; }))
        ADD_FAILURE() << "memory " << (to == begin ? "before" : "after") << " an allocation of " << block.bytes << " bytes was written";
    }
    fenced_.give_back(block.pages);
  }

  void upload(void* to, const void* from, std::size_t bytes) override {
    if (bytes == 0) return;
    const cuda::ContextScope scope(driver_, context_);
    expect_success(driver_.memcpy_htod_async(reinterpret_cast<CUdeviceptr>(to), from, bytes, stream_), "cuMemcpyHtoDAsync");
    expect_success(driver_.stream_synchronize(stream_), "cuStreamSynchronize");
  }

  void download(void* to, const void* from, std::size_t bytes) override {
    if (bytes == 0) return;
    const cuda::ContextScope scope(driver_, context_);
    expect_success(driver_.memcpy_dtoh_async(to, reinterpret_cast<CUdeviceptr>(from), bytes, stream_), "cuMemcpyDtoHAsync");
    expect_success(driver_.stream_synchronize(stream_), "cuStreamSynchronize");
  }

  void synchronize() override {
    const cuda::ContextScope scope(driver_, context_);
    expect_success(driver_.stream_synchronize(stream_), "cuStreamSynchronize");
  }

  void* stream() override { return stream_; }

 private:
  static constexpr CUdeviceptr kGuard = 4096;
  static constexpr std::size_t kAlignment = 16;
  struct Block {
    FencedMemory::Block pages;
    std::size_t bytes;  // asked for
    bool fenced;
  };

  void* keep(CUdeviceptr at, const Block& block) {
    const std::lock_guard lock(mutex_);
    void* const memory = reinterpret_cast<void*>(at);
    blocks_.emplace(memory, block);
    return memory;
  }

  const cuda::Driver& driver_;
  CUcontext context_;
  CUstream stream_ = nullptr;
  std::mutex mutex_;
  std::map<void*, Block> blocks_;
  FencedMemory fenced_;
  std::atomic<unsigned> allocations_ = 0;
};

}  // namespace

CudaSession cuda_session(int ordinal) {
  const auto driver = cuda::driver();
  if (!driver.ok()) return {nullptr, nullptr};
  static std::map<int, cuda::PrimaryContext> contexts;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  auto found = contexts.find(ordinal);
  if (found == contexts.end()) {
    auto context = cuda::PrimaryContext::retain(ordinal);
    if (!context.ok()) return {nullptr, nullptr};
    found = contexts.emplace(ordinal, std::move(context).value()).first;
  }
  return {driver.value(), found->second.get()};
}

std::unique_ptr<TestDevice> make_cuda_device(int ordinal) {
  const CudaSession session = cuda_session(ordinal);
  if (session.driver == nullptr) return nullptr;
  return std::make_unique<CudaDevice>(session, ordinal);
}

}  // namespace tandem::testing
