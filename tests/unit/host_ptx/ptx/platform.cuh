// The few primitives that tile decoding, trip counts and masks use, for one host thread that stands where `place` says. It lets the unit
// tests run those headers of kernels/ as they are. (The Hopper model has the complete set.)
#pragma once
#include <cstdint>

#define TANDEM_DEVICE inline
#define TANDEM_GRID_CONSTANT const

namespace tandem {

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

namespace ptx {

struct Place {
  int block = 0;
  int grid = 1;
  int cluster_rank = 0;
  int thread = 0;
};
inline thread_local Place place;

inline int thread_index() { return place.thread; }
inline int block_index() { return place.block; }
inline int grid_size() { return place.grid; }
inline int lane_index() { return place.thread % 32; }
inline u32 shared_address(const void* p) { return static_cast<u32>(reinterpret_cast<std::uintptr_t>(p)); }

}  // namespace ptx
}  // namespace tandem
