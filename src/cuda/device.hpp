// A GPU and its primary context.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/driver.hpp"

namespace tandem::cuda {

struct DeviceProperties {
  int ordinal = 0;
  std::string name;
  int compute_major = 0, compute_minor = 0;
  int multiprocessors = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t memory_bytes = 0;
  int driver_version = 0;  // 13000 for CUDA 13.0
};

Result<int> device_count();
Result<DeviceProperties> device_properties(int ordinal);

// Retains the primary context of a device: the one that the CUDA runtime, and with it torch, uses.
class PrimaryContext {
 public:
  static Result<PrimaryContext> retain(int ordinal);
  PrimaryContext(PrimaryContext&& other) noexcept;
  PrimaryContext& operator=(PrimaryContext&&) = delete;
  ~PrimaryContext();

  CUcontext get() const { return context_; }

 private:
  PrimaryContext(const Driver& driver, CUdevice device, CUcontext context) : driver_(&driver), device_(device), context_(context) {}

  const Driver* driver_;
  CUdevice device_;
  CUcontext context_;
};

// Makes a context current for a scope, and only then costs a push and a pop if another one was.
class ContextScope {
 public:
  ContextScope(const Driver& driver, CUcontext context);
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  ~ContextScope();

  CUresult result() const { return result_; }

 private:
  const Driver& driver_;
  bool pushed_ = false;
  CUresult result_ = CUDA_SUCCESS;
};

}  // namespace tandem::cuda
