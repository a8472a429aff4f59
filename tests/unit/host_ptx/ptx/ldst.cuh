// Plain accesses: the tests here run no tile of a ragged batch.
#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

TANDEM_DEVICE u32 load_global_4b(const void* source) { return *static_cast<const u32*>(source); }

}  // namespace tandem::ptx
