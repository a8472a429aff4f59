// Tensor maps by the driver.
#pragma once

#include "cuda/driver.hpp"
#include "plan/launch.hpp"

namespace tandem::cuda {

Status encode(const Driver& driver, const TensorMapRequest& request, TensorMap& map);

}  // namespace tandem::cuda
