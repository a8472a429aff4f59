// Device memory for the operator tests.
#pragma once

#include <memory>

#include "cuda/device.hpp"
#include "support/device.hpp"

namespace tandem::testing {

// Poison (0xff: NaN in every type) in and around each allocation, and no memory on one side of it (fenced_memory.hpp). Usable from several threads. nullptr: no
// such GPU.
std::unique_ptr<TestDevice> make_cuda_device(int ordinal = 0);

// The driver and the primary context that the tests share with the library.
struct CudaSession {
  const cuda::Driver* driver;
  CUcontext context;
};
CudaSession cuda_session(int ordinal = 0);

}  // namespace tandem::testing
