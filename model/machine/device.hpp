// What the model's ptx/ headers call: every operation of the vocabulary, executed for the thread that runs now. Nothing here is inline, so
// that the return address of a call is a place in the kernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ptx/tensor_map.hpp"

namespace tandem::model::device {

int thread_index();
int block_index();
int grid_size();

unsigned char* shared_base(std::size_t bytes, std::size_t alignment);
std::uint32_t shared_address(const void* p);

unsigned long long atomic_add_global(unsigned long long* address, unsigned long long value);
unsigned long long load_global_relaxed(const unsigned long long* address);
void store_global_relaxed(unsigned long long* address, unsigned long long value);

int cluster_cta_rank();
void cluster_sync();

void fence_mbarrier_init();
void fence_proxy_async_shared();

void ldmatrix_x4(std::uint32_t* registers, std::uint32_t row_address);
void stmatrix_x4(std::uint32_t row_address, std::uint32_t r0, std::uint32_t r1, std::uint32_t r2, std::uint32_t r3);

void load_global(const void* source, void* value, int bytes);
void store_global(void* destination, const void* value, int bytes);

void mbarrier_init(void* barrier, int arrivals);
void mbarrier_arrive_expect_tx(void* barrier, int bytes);
void mbarrier_arrive(void* barrier);
void mbarrier_arrive_remote(void* barrier, int cta_rank);
void mbarrier_wait(void* barrier, std::uint32_t parity);

void block_sync();
void named_barrier_sync(int id, int threads);
void named_barrier_arrive(int id, int threads);

void setmaxnreg_dec(int registers);
void setmaxnreg_inc(int registers);

// `cta_mask` 0: no multicast.
void tma_load(void* destination, const TensorMap& map, void* barrier, const int* coordinates, int rank, std::uint32_t cta_mask);
void tma_store(const TensorMap& map, const void* source, const int* coordinates, int rank);
void tma_store_commit();
void tma_store_wait_read(int groups);
void tma_prefetch_descriptor(const TensorMap& map);

std::uint32_t shuffle(std::uint32_t value, int source_lane);
std::uint32_t shuffle_xor(std::uint32_t value, int lane_mask);
bool warp_any(bool predicate);
void warp_sync();
bool elect_one();

// Type, shape and layout of a WGMMA in one word, so that a call passes little.
struct WgmmaShape {
  std::uint16_t n;
  std::uint8_t type;  // OperandType
  std::uint8_t b_n_contiguous;
};
void wgmma_fence();
void wgmma_commit_group();
void wgmma_wait_group(int groups);
void wgmma_settle(const float* d, int count);
void wgmma_ss(WgmmaShape shape, float* d, std::uint64_t a_descriptor, std::uint64_t b_descriptor, bool accumulate);
void wgmma_rs(WgmmaShape shape, float* d, const std::uint32_t* a, std::uint64_t b_descriptor, bool accumulate);

// Virtual time, 0 where a launch is not timed; and what arithmetic costs of it. Kernels that are timed report their arithmetic where the
// vocabulary has a call for it; plain operators are charged to the call beside them.
unsigned long long clock_cycles();
enum class Arithmetic : int {
  element,    // an exponential, with the FFMA before and the FADD after it
  alu,        // a maximum or a conversion
  scalar,     // a step of a chain of dependent instructions
  reduction,  // a shuffle whose result the next instruction needs
};
void count(Arithmetic kind);

}  // namespace tandem::model::device
