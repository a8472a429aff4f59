// The words that C++ lacks on a GPU: attributes, fixed-width integers, the place of a thread.
// Everything under ptx/ has a second implementation of the same names in model/ptx/; kernels never know which one they include.
#pragma once

#define TANDEM_DEVICE __device__ __forceinline__
#define TANDEM_KERNEL(threads, ctas_per_sm) extern "C" __global__ void __launch_bounds__(threads, ctas_per_sm)
#define TANDEM_GRID_CONSTANT const __grid_constant__

namespace tandem {

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

namespace ptx {

// Read anew at each use (volatile): a thread's place is needed a few times a tile, and a register that holds it all along is one too many.
TANDEM_DEVICE int thread_index() {
  u32 index;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  return static_cast<int>(index);
}
TANDEM_DEVICE int block_index() { return static_cast<int>(blockIdx.x); }
TANDEM_DEVICE int grid_size() { return static_cast<int>(gridDim.x); }
TANDEM_DEVICE int lane_index() { return thread_index() % 32; }

// Dynamic shared memory of the block as the one struct that describes it. T must be aligned to 1024 bytes (128-byte swizzle).
template <class T>
TANDEM_DEVICE T& shared_storage() {
  extern __shared__ __align__(1024) unsigned char tandem_shared_bytes[];
  return *reinterpret_cast<T*>(tandem_shared_bytes);
}

// 32-bit address in the shared window, what every shared::cta operand takes.
TANDEM_DEVICE u32 shared_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

}  // namespace ptx
}  // namespace tandem
