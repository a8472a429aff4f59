// Tensor Memory Accelerator: copies of boxes between a tensor in global memory and shared memory, described by a tensor map.
// Coordinates are (column, row, head, batch), of ragged tensors (column, row, head, end, batch): see tile/sequence.cuh. Parts of a box outside
// the tensor are read as zero and not written.
#pragma once
#include "ptx/mbarrier.cuh"
#include "ptx/platform.cuh"
#include "ptx/tensor_map.hpp"

namespace tandem::ptx {

// L2 eviction priority of a load, as the 64-bit policy words that createpolicy yields.
enum class CacheHint : u64 {
  evict_normal = 0x1000000000000000ull,
  evict_first = 0x12f0000000000000ull,
  evict_last = 0x14f0000000000000ull,
};

// One thread issues it; completes `box bytes` on `barrier`, bytes of the parts outside the tensor included.
TANDEM_DEVICE void tma_load_4d(void* destination, const TensorMap& map, Barrier& barrier, int column, int row, int head, int batch, CacheHint hint) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(
                   shared_address(destination)),
               "l"(&map), "r"(shared_address(&barrier)), "r"(column), "r"(row), "r"(head), "r"(batch), "l"(static_cast<u64>(hint))
               : "memory");
}

TANDEM_DEVICE void tma_load_5d(void* destination, const TensorMap& map, Barrier& barrier, int column, int row, int head, int end, int batch, CacheHint hint) {
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, %4, %5, %6, %7}], [%2], %8;" ::"r"(
                   shared_address(destination)),
               "l"(&map), "r"(shared_address(&barrier)), "r"(column), "r"(row), "r"(head), "r"(end), "r"(batch), "l"(static_cast<u64>(hint))
               : "memory");
}

// The same box to the same offset of every CTA in `cta_mask`; each of them gets the bytes on its own barrier at the same offset.
TANDEM_DEVICE void tma_load_4d_multicast(void* destination, const TensorMap& map, Barrier& barrier, int column, int row, int head, int batch, CacheHint hint,
                                         u16 cta_mask) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%0], [%1, {%3, %4, %5, %6}], [%2], %8, "
      "%7;" ::"r"(shared_address(destination)),
      "l"(&map), "r"(shared_address(&barrier)), "r"(column), "r"(row), "r"(head), "r"(batch), "l"(static_cast<u64>(hint)), "h"(cta_mask)
      : "memory");
}

// Joins the issuing thread's open bulk group. What it reads must have been fenced (fence_proxy_async_shared) by its writers.
TANDEM_DEVICE void tma_store_4d(const TensorMap& map, const void* source, int column, int row, int head, int batch) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map), "r"(shared_address(source)), "r"(column),
               "r"(row), "r"(head), "r"(batch)
               : "memory");
}

TANDEM_DEVICE void tma_store_5d(const TensorMap& map, const void* source, int column, int row, int head, int end, int batch) {
  asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(&map), "r"(shared_address(source)), "r"(column),
               "r"(row), "r"(head), "r"(end), "r"(batch)
               : "memory");
}

TANDEM_DEVICE void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Returns when at most `kGroups` of this thread's bulk groups have not yet read their source.
template <int kGroups>
TANDEM_DEVICE void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kGroups) : "memory");
}

TANDEM_DEVICE void tma_prefetch_descriptor(const TensorMap& map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }

}  // namespace tandem::ptx
