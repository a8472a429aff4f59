// The memory that a backend's tensors live in, so that one test body serves backends on the host and on a GPU.
#pragma once

#include <cstddef>
#include <memory>

namespace tandem::testing {

class TestDevice {
 public:
  virtual ~TestDevice() = default;

  // Poison inside, and poison before and after it that free() checks. At least 16-byte aligned.
  virtual void* allocate(std::size_t bytes) = 0;
  // For sizes that must not be touched as a whole: contents are undefined and nothing around them is checked. nullptr: not available here.
  virtual void* allocate_untouched(std::size_t bytes) = 0;
  // Reports a test failure if something was written just outside.
  virtual void free(void* memory) = 0;

  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;
  virtual void synchronize() = 0;
  // What runs are given as their stream.
  virtual void* stream() { return nullptr; }
};

// For backends that read host memory. An allocation ends where a page that may not be accessed begins, up to alignment.
std::unique_ptr<TestDevice> make_host_device();

class DeviceBuffer {
 public:
  DeviceBuffer(TestDevice& device, std::size_t bytes) : device_(&device), data_(device.allocate(bytes)), bytes_(bytes) {}
  ~DeviceBuffer() { device_->free(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  TestDevice* device_;
  void* data_;
  std::size_t bytes_;
};

}  // namespace tandem::testing
