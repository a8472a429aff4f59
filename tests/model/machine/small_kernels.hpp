// Small kernels, each with one mistake or none, for what the forward kernel has no place to show. Shared by the translation unit that is
// compiled as kernels and the tests.
#pragma once

#include "ptx/tensor_map.hpp"

namespace tandem::testing {

using SmallKernel = void (*)(const void* params);

struct SmallParams {
  float* out;       // 64 numbers
  const float* in;  // 64 numbers
  // `in` as two rows of 64 16-bit numbers; and the same as the last two rows of four, of which the first two are no memory of the call.
  TensorMap rows, last_rows;
};

// Shared memory of all of them, by offset: 256 floats, two barriers.
inline constexpr unsigned kNumbersOffset = 0, kNumbers = 256, kBarriersOffset = 1024, kBarriers = 2;
inline constexpr unsigned kSmallSharedBytes = 2048;

// 64 threads unless the name says otherwise.
void sum_through_shared_memory(const void* params);  // right
void sum_without_sync(const void* params);
void sum_with_warp_sync_only(const void* params);
void read_before_any_write(const void* params);
void write_past_shared_memory(const void* params);
void byte_wise_neighbours(const void* params);  // right: threads write neighbouring bytes
void ordinary_write_to_a_barrier(const void* params);
void barrier_initialised_twice(const void* params);
void misaligned_barrier(const void* params);
void write_to_an_input(const void* params);
void read_past_an_input(const void* params);
void stray_pointer(const void* params);
void lanes_in_different_exchanges(const void* params);
void lane_leaves_before_an_exchange(const void* params);
void wait_for_a_phase_that_overtakes(const void* params);
void ping_through_barriers(const void* params);  // right
void spins_for_ever(const void* params);
void registers_back_and_forth(const void* params);             // right, 384 threads
void registers_given_by_one_warp_too_few(const void* params);  // 384 threads
void barrier_without_a_partner(const void* params);
void arrives_at_a_block_that_left(const void* params);  // cluster of two
void cluster_handshake(const void* params);             // right, cluster of two
void waits_for_bytes_of_nobody(const void* params);
void loads_a_row_beyond_all(const void* params);        // right: 0
void loads_a_row_beyond_the_last(const void* params);   // of a map that begins outside memory
void loads_a_row_that_is_the_last(const void* params);  // right, of the same map

}  // namespace tandem::testing
