// The CUDA driver, opened at run time: the library loads and serves the CPU where there is none.
#pragma once

#include <cuda.h>

#include <string>

#include "tandem/result.hpp"

namespace tandem::cuda {

// Entry points by their names in cuda.h.
struct Driver {
  decltype(&::cuInit) init;
  decltype(&::cuDriverGetVersion) driver_get_version;
  decltype(&::cuGetErrorName) get_error_name;
  decltype(&::cuGetErrorString) get_error_string;
  decltype(&::cuDeviceGetCount) device_get_count;
  decltype(&::cuDeviceGet) device_get;
  decltype(&::cuDeviceGetName) device_get_name;
  decltype(&::cuDeviceGetAttribute) device_get_attribute;
  decltype(&::cuDeviceTotalMem) device_total_mem;
  decltype(&::cuDevicePrimaryCtxRetain) primary_ctx_retain;
  decltype(&::cuDevicePrimaryCtxRelease) primary_ctx_release;
  decltype(&::cuCtxGetCurrent) ctx_get_current;
  decltype(&::cuCtxPushCurrent) ctx_push_current;
  decltype(&::cuCtxPopCurrent) ctx_pop_current;
  decltype(&::cuLibraryLoadData) library_load_data;
  decltype(&::cuLibraryUnload) library_unload;
  decltype(&::cuLibraryGetKernel) library_get_kernel;
  decltype(&::cuKernelGetFunction) kernel_get_function;
  decltype(&::cuFuncSetAttribute) func_set_attribute;
  decltype(&::cuFuncGetAttribute) func_get_attribute;
  decltype(&::cuLaunchKernelEx) launch_kernel_ex;
  decltype(&::cuTensorMapEncodeTiled) tensor_map_encode_tiled;
  decltype(&::cuTensorMapReplaceAddress) tensor_map_replace_address;
  decltype(&::cuMemAlloc) mem_alloc;
  decltype(&::cuMemFree) mem_free;
  decltype(&::cuMemcpyHtoDAsync) memcpy_htod_async;
  decltype(&::cuMemcpyDtoHAsync) memcpy_dtoh_async;
  decltype(&::cuMemsetD8Async) memset_d8_async;
  decltype(&::cuStreamCreate) stream_create;
  decltype(&::cuStreamDestroy) stream_destroy;
  decltype(&::cuStreamSynchronize) stream_synchronize;
  decltype(&::cuEventCreate) event_create;
  decltype(&::cuEventDestroy) event_destroy;
  decltype(&::cuEventRecord) event_record;
  decltype(&::cuEventSynchronize) event_synchronize;
  decltype(&::cuEventElapsedTime) event_elapsed_time;
  decltype(&::cuStreamIsCapturing) stream_is_capturing;
  decltype(&::cuStreamGetId) stream_get_id;
  decltype(&::cuStreamGetCtx_v2) stream_get_ctx;  // null before CUDA 12.5
  decltype(&::cuThreadExchangeStreamCaptureMode) thread_exchange_stream_capture_mode;
  decltype(&::cuGraphCreate) graph_create;
  decltype(&::cuGraphDestroy) graph_destroy;
  decltype(&::cuGraphAddKernelNode) graph_add_kernel_node;
  decltype(&::cuGraphInstantiate) graph_instantiate;
  decltype(&::cuGraphExecDestroy) graph_exec_destroy;
  decltype(&::cuGraphExecKernelNodeSetParams) graph_exec_kernel_node_set_params;
  decltype(&::cuGraphLaunch) graph_launch;
};

// Opens libcuda and initialises it, once a process. Fails with `unavailable` where there is no driver or no GPU.
Result<const Driver*> driver();

// "cuLaunchKernelEx failed: CUDA_ERROR_INVALID_VALUE (invalid argument)".
Status failure(const Driver& driver, CUresult result, const char* call);

}  // namespace tandem::cuda
