// Thread block clusters: the blocks of one run in one OS thread.
#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

TANDEM_DEVICE int cluster_cta_rank() { return device::cluster_cta_rank(); }
TANDEM_DEVICE void cluster_sync() { device::cluster_sync(); }

}  // namespace tandem::ptx
