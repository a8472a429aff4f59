#include "cuda_device.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <vector>

namespace tandem::testing {
namespace {

void expect_success(CUresult result, const char* call) { EXPECT_EQ(result, CUDA_SUCCESS) << cuda::failure(*cuda::driver().value(), result, call).message(); }

class CudaDevice final : public TestDevice {
 public:
  CudaDevice(const CudaSession& session) : driver_(*session.driver), context_(session.context) {
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
    CUdeviceptr base = 0;
    if (driver_.mem_alloc(&base, bytes + 2 * kGuard) != CUDA_SUCCESS) throw std::bad_alloc();
    expect_success(driver_.memset_d8_async(base, 0xff, bytes + 2 * kGuard, stream_), "cuMemsetD8Async");
    synchronize();
    return keep(base + kGuard, {base, bytes, true});
  }

  void* allocate_untouched(std::size_t bytes) override {
    const cuda::ContextScope scope(driver_, context_);
    CUdeviceptr base = 0;
    if (driver_.mem_alloc(&base, bytes) != CUDA_SUCCESS) return nullptr;
    return keep(base, {base, bytes, false});
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
    if (block.guarded) {
      std::vector<unsigned char> guard(kGuard);
      for (const CUdeviceptr at : {block.base, block.base + kGuard + block.bytes}) {
        download(guard.data(), reinterpret_cast<const void*>(at), kGuard);
        for (const unsigned char byte : guard)
          if (byte != 0xff) {
            ADD_FAILURE() << "memory " << (at == block.base ? "before" : "after") << " an allocation of " << block.bytes << " bytes was written";
            break;
          }
      }
    }
    expect_success(driver_.mem_free(block.base), "cuMemFree");
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
  static constexpr std::size_t kGuard = 4096;
  struct Block {
    CUdeviceptr base;
    std::size_t bytes;
    bool guarded;
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
  return std::make_unique<CudaDevice>(session);
}

}  // namespace tandem::testing
