// The model's platform: kernels are ordinary host functions, run by the machine on one fiber a thread.
#pragma once
#include "machine/device.hpp"

// Always inlined, as on the device: then the place of a vocabulary call tells the whole chain of calls above it.
#define TANDEM_DEVICE __attribute__((always_inline)) inline
#define TANDEM_KERNEL(threads, ctas_per_sm) extern "C" void
#define TANDEM_GRID_CONSTANT const

// What arithmetic costs of virtual time, in the kernels that are timed; nothing in all others.
#ifdef TANDEM_MODEL_TIMED
#define TANDEM_COUNT(kind) ::tandem::model::device::count(::tandem::model::device::Arithmetic::kind)
#else
#define TANDEM_COUNT(kind) static_cast<void>(0)
#endif

namespace tandem {

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

namespace ptx {

namespace device = model::device;

TANDEM_DEVICE int thread_index() { return device::thread_index(); }
TANDEM_DEVICE int block_index() { return device::block_index(); }
TANDEM_DEVICE int grid_size() { return device::grid_size(); }
TANDEM_DEVICE int lane_index() { return device::thread_index() % 32; }

template <class T>
TANDEM_DEVICE T& shared_storage() {
  return *reinterpret_cast<T*>(device::shared_base(sizeof(T), alignof(T)));
}

TANDEM_DEVICE u32 shared_address(const void* p) { return device::shared_address(p); }

}  // namespace ptx
}  // namespace tandem
