#include "cuda/driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace tandem::cuda {
namespace {

Result<Driver> open_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return Status(StatusCode::unavailable, "no CUDA driver on this machine: libcuda.so.1 could not be opened");

  Driver driver{};
  std::string missing;
  const auto load = [&](auto& entry, const char* name) {
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(dlsym(library, name));
    if (entry == nullptr && missing.empty()) missing = name;
  };
  load(driver.init, "cuInit");
  load(driver.driver_get_version, "cuDriverGetVersion");
  load(driver.get_error_name, "cuGetErrorName");
  load(driver.get_error_string, "cuGetErrorString");
  load(driver.device_get_count, "cuDeviceGetCount");
  load(driver.device_get, "cuDeviceGet");
  load(driver.device_get_name, "cuDeviceGetName");
  load(driver.device_get_attribute, "cuDeviceGetAttribute");
  load(driver.device_total_mem, "cuDeviceTotalMem_v2");
  load(driver.primary_ctx_retain, "cuDevicePrimaryCtxRetain");
  load(driver.primary_ctx_release, "cuDevicePrimaryCtxRelease_v2");
  load(driver.ctx_get_current, "cuCtxGetCurrent");
  load(driver.ctx_push_current, "cuCtxPushCurrent_v2");
  load(driver.ctx_pop_current, "cuCtxPopCurrent_v2");
  load(driver.library_load_data, "cuLibraryLoadData");
  load(driver.library_unload, "cuLibraryUnload");
  load(driver.library_get_kernel, "cuLibraryGetKernel");
  load(driver.kernel_get_function, "cuKernelGetFunction");
  load(driver.func_set_attribute, "cuFuncSetAttribute");
  load(driver.func_get_attribute, "cuFuncGetAttribute");
  load(driver.launch_kernel_ex, "cuLaunchKernelEx");
  load(driver.tensor_map_encode_tiled, "cuTensorMapEncodeTiled");
  load(driver.tensor_map_replace_address, "cuTensorMapReplaceAddress");
  load(driver.mem_alloc, "cuMemAlloc_v2");
  load(driver.mem_free, "cuMemFree_v2");
  load(driver.memcpy_htod_async, "cuMemcpyHtoDAsync_v2");
  load(driver.memcpy_dtoh_async, "cuMemcpyDtoHAsync_v2");
  load(driver.memset_d8_async, "cuMemsetD8Async");
  load(driver.stream_create, "cuStreamCreate");
  load(driver.stream_destroy, "cuStreamDestroy_v2");
  load(driver.stream_synchronize, "cuStreamSynchronize");
  load(driver.event_create, "cuEventCreate");
  load(driver.event_destroy, "cuEventDestroy_v2");
  load(driver.event_record, "cuEventRecord");
  load(driver.event_synchronize, "cuEventSynchronize");
  load(driver.event_elapsed_time, "cuEventElapsedTime");
  load(driver.stream_is_capturing, "cuStreamIsCapturing");
  load(driver.stream_get_id, "cuStreamGetId");
  load(driver.thread_exchange_stream_capture_mode, "cuThreadExchangeStreamCaptureMode");
  load(driver.graph_create, "cuGraphCreate");
  load(driver.graph_destroy, "cuGraphDestroy");
  load(driver.graph_add_kernel_node, "cuGraphAddKernelNode_v2");
  load(driver.graph_instantiate, "cuGraphInstantiateWithFlags");
  load(driver.graph_exec_destroy, "cuGraphExecDestroy");
  load(driver.graph_exec_kernel_node_set_params, "cuGraphExecKernelNodeSetParams_v2");
  load(driver.graph_launch, "cuGraphLaunch");
  driver.stream_get_ctx = reinterpret_cast<decltype(driver.stream_get_ctx)>(dlsym(library, "cuStreamGetCtx_v2"));
  if (!missing.empty()) return Status(StatusCode::unavailable, fmt::format("the CUDA driver lacks {}; a driver for CUDA 12.3 or later is needed", missing));

  if (const CUresult result = driver.init(0); result != CUDA_SUCCESS) {
    const char* text = nullptr;
    driver.get_error_string(result, &text);
    return Status(StatusCode::unavailable, fmt::format("the CUDA driver found no usable GPU: {}", text == nullptr ? "unknown error" : text));
  }
  return driver;
}

}  // namespace

Result<const Driver*> driver() {
  static const Result<Driver> opened = open_driver();  // stays open: kernels and contexts live as long as the process
  if (!opened.ok()) return opened.status();
  return &opened.value();
}

Status failure(const Driver& driver, CUresult result, const char* call) {
  const char *name = nullptr, *text = nullptr;
  driver.get_error_name(result, &name);
  driver.get_error_string(result, &text);
  const StatusCode code = result == CUDA_ERROR_OUT_OF_MEMORY ? StatusCode::out_of_memory : StatusCode::driver_error;
  return {code, fmt::format("{} failed: {} ({})", call, name == nullptr ? "unknown error" : name, text == nullptr ? "no description" : text)};
}

}  // namespace tandem::cuda
