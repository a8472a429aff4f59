// setmaxnreg: the machine keeps the account of the block's registers.
#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

template <int kRegisters>
TANDEM_DEVICE void setmaxnreg_dec() {
  device::setmaxnreg_dec(kRegisters);
}

template <int kRegisters>
TANDEM_DEVICE void setmaxnreg_inc() {
  device::setmaxnreg_inc(kRegisters);
}

}  // namespace tandem::ptx
