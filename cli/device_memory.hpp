// Memory of a CUDA device, through the driver.
#pragma once

#include <memory>

#include "memory.hpp"

namespace tandem::cli {

std::unique_ptr<MemorySpace> make_device_memory(int device);

}  // namespace tandem::cli
