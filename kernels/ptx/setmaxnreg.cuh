// setmaxnreg moves registers between the warpgroups of a block. All warps of a warpgroup execute it; the launch must have a register cap.
#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

template <int kRegisters>
TANDEM_DEVICE void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
TANDEM_DEVICE void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace tandem::ptx
