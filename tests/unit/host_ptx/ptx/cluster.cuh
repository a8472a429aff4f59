#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

inline int cluster_cta_rank() { return place.cluster_rank; }

}  // namespace tandem::ptx
