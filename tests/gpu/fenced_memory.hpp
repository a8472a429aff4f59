// Device memory with nothing beside it: a kernel that reads or writes outside an allocation stops with an illegal address, wherever the allocation
// lies. cuMemAlloc puts small ones next to each other, where such an access finds memory of somebody's.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

#include "cuda/driver.hpp"

namespace tandem::testing {

// Blocks of mapped pages between reserved ones that are not. Freed blocks are given out again. The context must be current.
class FencedMemory {
 public:
  explicit FencedMemory(int ordinal);
  FencedMemory(const FencedMemory&) = delete;
  FencedMemory& operator=(const FencedMemory&) = delete;
  ~FencedMemory();

  struct Block {
    CUdeviceptr base = 0;   // of the mapped pages
    std::size_t bytes = 0;  // of them: at least as many as asked for
  };

  // base 0: no memory.
  Block take(std::size_t bytes);
  void give_back(const Block& block);

 private:
  // What the library itself does not use.
  struct Api {
    decltype(&::cuMemGetAllocationGranularity) granularity;
    decltype(&::cuMemAddressReserve) reserve;
    decltype(&::cuMemAddressFree) unreserve;
    decltype(&::cuMemCreate) create;
    decltype(&::cuMemRelease) release;
    decltype(&::cuMemMap) map;
    decltype(&::cuMemUnmap) unmap;
    decltype(&::cuMemSetAccess) set_access;
  };

  bool map_pages(const Block& block) const;

  Api api_{};
  CUmemAllocationProp properties_{};
  std::size_t page_ = 0;
  std::mutex mutex_;
  std::multimap<std::size_t, Block> free_;  // by their bytes
  std::vector<Block> all_;
};

}  // namespace tandem::testing
