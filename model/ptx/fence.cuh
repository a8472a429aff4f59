// Fences between the ways in which memory is reached.
#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

TANDEM_DEVICE void fence_mbarrier_init() { device::fence_mbarrier_init(); }
TANDEM_DEVICE void fence_proxy_async_shared() { device::fence_proxy_async_shared(); }

}  // namespace tandem::ptx
