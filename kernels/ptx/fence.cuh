// Fences between the ways in which memory is reached.
#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

// Makes mbarrier.init visible to the asynchronous proxy and to the other CTAs of the cluster.
TANDEM_DEVICE void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// Orders this thread's ordinary stores to shared memory before later reads by TMA or WGMMA (after a barrier, in other threads too).
TANDEM_DEVICE void fence_proxy_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace tandem::ptx
