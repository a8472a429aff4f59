#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

inline u64 atomic_add_global(u64* address, u64 value) {
  const u64 old = *address;
  *address += value;
  return old;
}
inline u64 load_global_relaxed(const u64* address) { return *address; }
inline void store_global_relaxed(u64* address, u64 value) { *address = value; }

}  // namespace tandem::ptx
