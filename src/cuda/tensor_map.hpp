// Tensor maps by the driver.
#pragma once

#include "cuda/driver.hpp"
#include "plan/launch.hpp"

namespace tandem::cuda {

// A map and what it was made from.
struct EncodedMap {
  TensorMapRequest request;
  TensorMap map{};
};

// Makes `encoded` the map of `request`, if it is needed. One that differs in its address alone is moved there, at a tenth of the cost of a new one.
// A context must be current: the driver checks the address against it.
Status encode(const Driver& driver, const TensorMapRequest& request, EncodedMap& encoded);

}  // namespace tandem::cuda
