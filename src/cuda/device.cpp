#include "cuda/device.hpp"

#include <fmt/format.h>

#include <utility>

namespace tandem::cuda {

Result<int> device_count() {
  const auto api = driver();
  if (!api.ok()) return api.status();
  int count = 0;
  if (const CUresult result = api.value()->device_get_count(&count); result != CUDA_SUCCESS) return failure(*api.value(), result, "cuDeviceGetCount");
  return count;
}

Result<DeviceProperties> device_properties(int ordinal) {
  const auto count = device_count();
  if (!count.ok()) return count.status();
  if (ordinal < 0 || ordinal >= count.value())
    return Status(StatusCode::invalid_argument, fmt::format("device is {}; this machine has {} CUDA device(s), numbered from 0", ordinal, count.value()));
  const Driver& api = *driver().value();

  CUdevice device = 0;
  if (const CUresult result = api.device_get(&device, ordinal); result != CUDA_SUCCESS) return failure(api, result, "cuDeviceGet");
  DeviceProperties properties;
  properties.ordinal = ordinal;
  char name[256] = {};
  CUresult result = api.device_get_name(name, sizeof name, device);
  properties.name = name;
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    if (result == CUDA_SUCCESS) result = api.device_get_attribute(&value, which, device);
    return value;
  };
  properties.compute_major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  properties.compute_minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  properties.multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  properties.l2_bytes = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  std::size_t bytes = 0;
  if (result == CUDA_SUCCESS) result = api.device_total_mem(&bytes, device);
  properties.memory_bytes = static_cast<std::int64_t>(bytes);
  if (result == CUDA_SUCCESS) result = api.driver_get_version(&properties.driver_version);
  if (result != CUDA_SUCCESS) return failure(api, result, "cuDeviceGetAttribute");
  return properties;
}

Result<PrimaryContext> PrimaryContext::retain(int ordinal) {
  const auto api = driver();
  if (!api.ok()) return api.status();
  CUdevice device = 0;
  if (const CUresult result = api.value()->device_get(&device, ordinal); result != CUDA_SUCCESS) return failure(*api.value(), result, "cuDeviceGet");
  CUcontext context = nullptr;
  if (const CUresult result = api.value()->primary_ctx_retain(&context, device); result != CUDA_SUCCESS)
    return failure(*api.value(), result, "cuDevicePrimaryCtxRetain");
  return PrimaryContext(*api.value(), device, context);
}

PrimaryContext::PrimaryContext(PrimaryContext&& other) noexcept
    : driver_(other.driver_), device_(other.device_), context_(std::exchange(other.context_, nullptr)) {}

PrimaryContext::~PrimaryContext() {
  if (context_ != nullptr) driver_->primary_ctx_release(device_);
}

ContextScope::ContextScope(const Driver& driver, CUcontext context) : driver_(driver) {
  CUcontext current = nullptr;
  result_ = driver_.ctx_get_current(&current);
  if (result_ == CUDA_SUCCESS && current != context) {
    result_ = driver_.ctx_push_current(context);
    pushed_ = result_ == CUDA_SUCCESS;
  }
}

ContextScope::~ContextScope() {
  CUcontext popped = nullptr;
  if (pushed_) driver_.ctx_pop_current(&popped);
}

}  // namespace tandem::cuda
