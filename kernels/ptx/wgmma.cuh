// Warpgroup MMA: D[64 x N] += A[64 x 16] B[16 x N], FP32 accumulators, issued by four warps and run asynchronously by the tensor core.
// Between the issue and the wait that covers it nobody may touch D, the registers of A, or the shared memory of A and B.
#pragma once
#include "ptx/dtype.hpp"
#include "ptx/platform.cuh"
#include "ptx/smem_desc.cuh"
#include "ptx/wgmma_table.cuh"

namespace tandem::ptx {

// Which index of an operand is contiguous in shared memory: k, or m (A) or n (B).
enum class Major : int { k, mn };

// Orders earlier register accesses before the WGMMAs that follow. Needed before the first one and whenever D or A was touched by ordinary code.
TANDEM_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Closes the group of all WGMMAs since the last commit.
TANDEM_DEVICE void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Returns when at most `kGroups` of the youngest groups are still in flight.
template <int kGroups>
TANDEM_DEVICE void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
}

// Says that these accumulators are no longer in flight. No instruction: it keeps the compiler from moving reads above the wait.
template <int kCount>
TANDEM_DEVICE void wgmma_settle(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// A and B from shared memory, A with k contiguous.
template <DType kType, int kN, Major kMajorB>
TANDEM_DEVICE void wgmma_ss(float (&d)[kN / 2], SmemDescriptor a, SmemDescriptor b, bool accumulate) {
  WgmmaTable<kType, kN>::template ss<static_cast<int>(kMajorB)>(d, a.bits(), b.bits(), accumulate);
}

// A from registers: a[0] rows 0-7 and columns 0-7 of the warp's 16 x 16 part, a[1] rows 8-15, a[2] and a[3] the same for columns 8-15.
template <DType kType, int kN, Major kMajorB>
TANDEM_DEVICE void wgmma_rs(float (&d)[kN / 2], const u32 (&a)[4], SmemDescriptor b, bool accumulate) {
  WgmmaTable<kType, kN>::template rs<static_cast<int>(kMajorB)>(d, a, b.bits(), accumulate);
}

}  // namespace tandem::ptx
