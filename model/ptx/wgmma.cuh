// Warpgroup MMA, run by the machine's tensor cores: D reads as NaN from the issue until the wait that covers it.
#pragma once
#include "ptx/dtype.hpp"
#include "ptx/platform.cuh"
#include "ptx/smem_desc.cuh"

namespace tandem::ptx {

enum class Major : int { k, mn };

TANDEM_DEVICE void wgmma_fence() { device::wgmma_fence(); }
TANDEM_DEVICE void wgmma_commit_group() { device::wgmma_commit_group(); }

template <int kGroups>
TANDEM_DEVICE void wgmma_wait_group() {
  device::wgmma_wait_group(kGroups);
}

template <int kCount>
TANDEM_DEVICE void wgmma_settle(float (&d)[kCount]) {
  device::wgmma_settle(d, kCount);
}

template <DType kType, int kN, Major kMajorB>
constexpr device::WgmmaShape kWgmmaShape = {kN, kType == DType::bf16 ? 1 : 0, kMajorB == Major::mn ? 1 : 0};

template <DType kType, int kN, Major kMajorB>
TANDEM_DEVICE void wgmma_ss(float (&d)[kN / 2], SmemDescriptor a, SmemDescriptor b, bool accumulate) {
  static_assert(kN % 8 == 0 && kN >= 8 && kN <= 256);
  device::wgmma_ss(kWgmmaShape<kType, kN, kMajorB>, d, a.bits(), b.bits(), accumulate);
}

template <DType kType, int kN, Major kMajorB>
TANDEM_DEVICE void wgmma_rs(float (&d)[kN / 2], const u32 (&a)[4], SmemDescriptor b, bool accumulate) {
  static_assert(kN % 8 == 0 && kN >= 8 && kN <= 256);
  device::wgmma_rs(kWgmmaShape<kType, kN, kMajorB>, d, a, b.bits(), accumulate);
}

}  // namespace tandem::ptx
