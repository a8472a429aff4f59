// Warp-wide exchange. All 32 lanes take part in every call.
#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

// The value of lane 0 in all lanes. The compiler then knows that it is warp-uniform and keeps it, and what is computed from it,
// in uniform registers: without this every WGMMA descriptor passes through R2UR.
TANDEM_DEVICE int warp_uniform(int value) { return __shfl_sync(0xffffffffu, value, 0); }
TANDEM_DEVICE u32 warp_uniform(u32 value) { return __shfl_sync(0xffffffffu, value, 0); }

TANDEM_DEVICE float shuffle_xor(float value, int lane_mask) { return __shfl_xor_sync(0xffffffffu, value, lane_mask); }
TANDEM_DEVICE u32 shuffle_xor(u32 value, int lane_mask) { return __shfl_xor_sync(0xffffffffu, value, lane_mask); }

// The value of lane `source` in all lanes.
TANDEM_DEVICE float shuffle(float value, int source) { return __shfl_sync(0xffffffffu, value, source); }

TANDEM_DEVICE bool warp_any(bool predicate) { return __any_sync(0xffffffffu, predicate); }
TANDEM_DEVICE void warp_sync() { __syncwarp(); }

// True in exactly one lane of a converged warp (elect.sync): ptxas then needs no divergence code around a TMA instruction.
TANDEM_DEVICE bool elect_one() {
  u32 elected;
  asm volatile(
      "{\n.reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(elected));
  return elected != 0;
}

}  // namespace tandem::ptx
