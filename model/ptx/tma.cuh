// Tensor Memory Accelerator: asynchronous copies that the machine's copy engine carries out at a time of its own.
#pragma once
#include "ptx/mbarrier.cuh"
#include "ptx/platform.cuh"
#include "ptx/tensor_map.hpp"

namespace tandem::ptx {

// Where a line of the L2 cache goes is nothing that the model knows.
enum class CacheHint : u64 {
  evict_normal = 0x1000000000000000ull,
  evict_first = 0x12f0000000000000ull,
  evict_last = 0x14f0000000000000ull,
};

TANDEM_DEVICE void tma_load_4d(void* destination, const TensorMap& map, Barrier& barrier, int column, int row, int head, int batch, CacheHint) {
  const int coordinates[4] = {column, row, head, batch};
  device::tma_load(destination, map, &barrier, coordinates, 4, 0);
}

TANDEM_DEVICE void tma_load_5d(void* destination, const TensorMap& map, Barrier& barrier, int column, int row, int head, int end, int batch, CacheHint) {
  const int coordinates[5] = {column, row, head, end, batch};
  device::tma_load(destination, map, &barrier, coordinates, 5, 0);
}

TANDEM_DEVICE void tma_load_4d_multicast(void* destination, const TensorMap& map, Barrier& barrier, int column, int row, int head, int batch, CacheHint,
                                         u16 cta_mask) {
  const int coordinates[4] = {column, row, head, batch};
  device::tma_load(destination, map, &barrier, coordinates, 4, cta_mask);
}

TANDEM_DEVICE void tma_store_4d(const TensorMap& map, const void* source, int column, int row, int head, int batch) {
  const int coordinates[4] = {column, row, head, batch};
  device::tma_store(map, source, coordinates, 4);
}

TANDEM_DEVICE void tma_store_5d(const TensorMap& map, const void* source, int column, int row, int head, int end, int batch) {
  const int coordinates[5] = {column, row, head, end, batch};
  device::tma_store(map, source, coordinates, 5);
}

TANDEM_DEVICE void tma_store_commit() { device::tma_store_commit(); }

template <int kGroups>
TANDEM_DEVICE void tma_store_wait_read() {
  device::tma_store_wait_read(kGroups);
}

TANDEM_DEVICE void tma_prefetch_descriptor(const TensorMap& map) { device::tma_prefetch_descriptor(map); }

}  // namespace tandem::ptx
