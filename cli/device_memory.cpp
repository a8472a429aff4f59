#include "device_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "cuda/device.hpp"
#include "cuda/driver.hpp"
#include "failure.hpp"

namespace tandem::cli {
namespace {

void check(const cuda::Driver& driver, CUresult result, const char* call) {
  if (result != CUDA_SUCCESS) require(cuda::failure(driver, result, call));
}

class DeviceBuffer final : public Buffer {
 public:
  DeviceBuffer(const cuda::Driver& driver, CUcontext context, std::size_t bytes) : driver_(driver), context_(context) {
    const CUresult result = driver.mem_alloc(&address_, std::max<std::size_t>(bytes, 16));
    if (result == CUDA_ERROR_OUT_OF_MEMORY) fail("the GPU has no {:.1f} MB left for a tensor; choose a smaller problem", static_cast<double>(bytes) / 1e6);
    check(driver, result, "cuMemAlloc");
    data_ = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address_));
    size_ = bytes;
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() override {
    const cuda::ContextScope scope(driver_, context_);
    driver_.mem_free(address_);
  }

  CUdeviceptr address() const { return address_; }

 private:
  const cuda::Driver& driver_;
  CUcontext context_;
  CUdeviceptr address_ = 0;
};

class Stream {
 public:
  explicit Stream(const cuda::Driver& driver) : driver_(driver) { check(driver, driver.stream_create(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate"); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { driver_.stream_destroy(stream_); }

  CUstream get() const { return stream_; }

 private:
  const cuda::Driver& driver_;
  CUstream stream_ = nullptr;
};

class Event {
 public:
  explicit Event(const cuda::Driver& driver) : driver_(driver) { check(driver, driver.event_create(&event_, CU_EVENT_DEFAULT), "cuEventCreate"); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { driver_.event_destroy(event_); }

  CUevent get() const { return event_; }

 private:
  const cuda::Driver& driver_;
  CUevent event_ = nullptr;
};

// The context is current in this thread as long as the object lives.
class DeviceMemory final : public MemorySpace {
 public:
  DeviceMemory(const cuda::Driver& driver, cuda::PrimaryContext context)
      : driver_(driver), context_(std::move(context)), scope_(driver, context_.get()), stream_(driver), start_(driver), stop_(driver) {}

  std::unique_ptr<Buffer> allocate(std::size_t bytes) override { return std::make_unique<DeviceBuffer>(driver_, context_.get(), bytes); }

  void write(Buffer& target, std::span<const std::byte> source) override {
    if (source.empty()) return;
    const auto address = reinterpret_cast<std::uintptr_t>(target.data());
    check(driver_, driver_.memcpy_htod_async(static_cast<CUdeviceptr>(address), source.data(), source.size(), stream_.get()), "cuMemcpyHtoDAsync");
    synchronize();  // the source may change once this returns
  }

  void read(std::span<std::byte> target, const Buffer& source) override {
    synchronize();
    if (target.empty()) return;
    const auto address = reinterpret_cast<std::uintptr_t>(source.data());
    check(driver_, driver_.memcpy_dtoh_async(target.data(), static_cast<CUdeviceptr>(address), target.size(), stream_.get()), "cuMemcpyDtoHAsync");
    synchronize();
  }

  void* stream() const override { return stream_.get(); }
  void synchronize() override { check(driver_, driver_.stream_synchronize(stream_.get()), "cuStreamSynchronize"); }

  double time(const std::function<void()>& launch) override {
    check(driver_, driver_.event_record(start_.get(), stream_.get()), "cuEventRecord");
    launch();
    check(driver_, driver_.event_record(stop_.get(), stream_.get()), "cuEventRecord");
    check(driver_, driver_.event_synchronize(stop_.get()), "cuEventSynchronize");
    float milliseconds = 0;
    check(driver_, driver_.event_elapsed_time(&milliseconds, start_.get(), stop_.get()), "cuEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  const cuda::Driver& driver_;
  cuda::PrimaryContext context_;
  cuda::ContextScope scope_;
  Stream stream_;
  Event start_, stop_;
};

}  // namespace

std::unique_ptr<MemorySpace> make_device_memory(int device) {
  const cuda::Driver& driver = *require(cuda::driver());
  return std::make_unique<DeviceMemory>(driver, require(cuda::PrimaryContext::retain(device)));
}

}  // namespace tandem::cli
