#include "model/machine/small_kernels.hpp"

#include "ptx/cluster.cuh"
#include "ptx/fence.cuh"
#include "ptx/ldst.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/named_barrier.cuh"
#include "ptx/setmaxnreg.cuh"
#include "ptx/tma.cuh"
#include "ptx/warp.cuh"

namespace tandem::testing {
namespace {

struct alignas(1024) Storage {
  float numbers[kNumbers];
  ptx::Barrier barriers[kBarriers];
};

const SmallParams& of(const void* params) { return *static_cast<const SmallParams*>(params); }

TANDEM_DEVICE Storage& storage() { return ptx::shared_storage<Storage>(); }

TANDEM_DEVICE void init_barriers(int arrivals) {
  if (ptx::thread_index() == 0) {
    for (auto& barrier : storage().barriers) ptx::mbarrier_init(barrier, arrivals);
    ptx::fence_mbarrier_init();
  }
  ptx::block_sync();
}

// Each thread writes a number and reads its neighbour's.
template <class Sync>
TANDEM_DEVICE void exchange(const void* params, Sync&& sync) {
  const int thread = ptx::thread_index();
  storage().numbers[thread] = of(params).in[thread];
  sync();
  ptx::store_global(of(params).out + thread, storage().numbers[thread] + storage().numbers[(thread + 1) % 64]);
}

// A row of 64 numbers of 16 bits.
TANDEM_DEVICE void load_row(const TensorMap& map, int row) {
  init_barriers(1);
  if (ptx::thread_index() == 0) {
    ptx::mbarrier_arrive_expect_tx(storage().barriers[0], 128);
    ptx::tma_load_4d(storage().numbers, map, storage().barriers[0], 0, row, 0, 0, ptx::CacheHint::evict_normal);
  }
  ptx::mbarrier_wait(storage().barriers[0], 0);
}

}  // namespace

void sum_through_shared_memory(const void* params) {
  exchange(params, [] { ptx::block_sync(); });
}

void sum_without_sync(const void* params) {
  exchange(params, [] {});
}

void sum_with_warp_sync_only(const void* params) {
  exchange(params, [] { ptx::warp_sync(); });
}

void read_before_any_write(const void* params) { ptx::store_global(of(params).out + ptx::thread_index(), storage().numbers[ptx::thread_index()]); }

void write_past_shared_memory(const void*) { storage().numbers[kSmallSharedBytes / 4 + static_cast<unsigned>(ptx::thread_index())] = 1.0f; }

void byte_wise_neighbours(const void* params) {
  const int thread = ptx::thread_index();
  auto* bytes = reinterpret_cast<unsigned char*>(storage().numbers);
  bytes[thread] = static_cast<unsigned char>(thread);
  ptx::block_sync();
  ptx::store_global(of(params).out + thread, static_cast<float>(bytes[63 - thread]));
}

void ordinary_write_to_a_barrier(const void*) {
  if (ptx::thread_index() == 0) storage().barriers[1].word = 0;
}

void barrier_initialised_twice(const void*) {
  if (ptx::thread_index() == 0)
    for (int i = 0; i < 2; ++i) ptx::mbarrier_init(storage().barriers[0], 1);
}

void misaligned_barrier(const void*) {
  if (ptx::thread_index() == 0) ptx::mbarrier_init(reinterpret_cast<ptx::Barrier&>(storage().numbers[1]), 1);
}

void write_to_an_input(const void* params) { const_cast<float*>(of(params).in)[ptx::thread_index()] = 0.0f; }

void read_past_an_input(const void* params) {
  const int thread = ptx::thread_index();
  ptx::store_global(of(params).out + thread, of(params).in[thread + 1]);
}

void stray_pointer(const void* params) {
  auto* nowhere = reinterpret_cast<float*>(reinterpret_cast<u64>(of(params).out) ^ (1ull << 45));
  *nowhere = 1.0f;
}

void lanes_in_different_exchanges(const void*) {
  if (ptx::lane_index() < 16)
    ptx::warp_sync();
  else
    ptx::warp_any(true);
}

void lane_leaves_before_an_exchange(const void*) {
  if (ptx::lane_index() == 5) return;
  ptx::warp_sync();
}

// Thread 0 completes two phases before thread 32 has looked: parity 0 comes round again.
void wait_for_a_phase_that_overtakes(const void*) {
  init_barriers(1);
  Storage& s = storage();
  if (ptx::thread_index() == 0) {
    ptx::mbarrier_arrive(s.barriers[0]);
    ptx::mbarrier_arrive(s.barriers[0]);
  }
  ptx::block_sync();
  if (ptx::thread_index() == 32) ptx::mbarrier_wait(s.barriers[0], 0);
}

// Two threads pass a number to and fro.
void ping_through_barriers(const void* params) {
  init_barriers(1);
  Storage& s = storage();
  const int thread = ptx::thread_index();
  if (thread % 32 == 0) {
    const int me = thread / 32;
    for (u32 round = 0; round < 8; ++round) {
      if (me == 0) {
        if (round > 0) ptx::mbarrier_wait(s.barriers[1], (round - 1) & 1);
        s.numbers[0] = static_cast<float>(round);
        ptx::mbarrier_arrive(s.barriers[0]);
      } else {
        ptx::mbarrier_wait(s.barriers[0], round & 1);
        s.numbers[1] = s.numbers[0] + (round == 0 ? 0.0f : s.numbers[1]);
        ptx::mbarrier_arrive(s.barriers[1]);
      }
    }
  }
  ptx::block_sync();
  ptx::store_global(of(params).out + thread, s.numbers[1]);
}

void spins_for_ever(const void* params) {
  const auto* word = reinterpret_cast<const u32*>(of(params).in);
  while (ptx::load_global_4b(word) != 12345u) {
  }
}

// 65,536 registers are 168 a thread; 24 + 2 * 240 is what they hold as well.
void registers_back_and_forth(const void* params) {
  if (ptx::thread_index() < 128) {
    ptx::setmaxnreg_dec<24>();
    ptx::block_sync();  // else what was given up may be taken back before the others have it
    ptx::setmaxnreg_inc<40>();
  } else {
    ptx::setmaxnreg_inc<240>();
    ptx::setmaxnreg_dec<232>();
    ptx::block_sync();
  }
  if (ptx::thread_index() < 64) ptx::store_global(of(params).out + ptx::thread_index(), 1.0f);
}

void registers_given_by_one_warp_too_few(const void*) {
  if (ptx::thread_index() < 96)
    ptx::setmaxnreg_dec<24>();
  else if (ptx::thread_index() >= 128)
    ptx::setmaxnreg_inc<240>();
}

void barrier_without_a_partner(const void*) {
  if (ptx::thread_index() < 32) ptx::named_barrier_sync(5, 64);
}

void arrives_at_a_block_that_left(const void*) {
  init_barriers(1);
  ptx::cluster_sync();
  if (ptx::cluster_cta_rank() == 1) return;
  // Long enough for the other block to be gone in some order.
  for (int i = 0; i < 100; ++i) ptx::block_sync();
  if (ptx::thread_index() == 0) ptx::mbarrier_arrive_remote(storage().barriers[0], 1);
}

void cluster_handshake(const void* params) {
  init_barriers(64);
  ptx::cluster_sync();
  ptx::mbarrier_arrive_remote(storage().barriers[0], 1 - ptx::cluster_cta_rank());
  ptx::mbarrier_wait(storage().barriers[0], 0);
  if (ptx::cluster_cta_rank() == 0) ptx::store_global(of(params).out + ptx::thread_index(), 2.0f);
  ptx::cluster_sync();
}

void waits_for_bytes_of_nobody(const void*) {
  init_barriers(1);
  if (ptx::thread_index() == 0) ptx::mbarrier_arrive_expect_tx(storage().barriers[0], 4096);
  ptx::mbarrier_wait(storage().barriers[0], 0);
}

void loads_a_row_beyond_all(const void* params) { load_row(of(params).rows, 2); }
void loads_a_row_beyond_the_last(const void* params) { load_row(of(params).last_rows, 4); }
void loads_a_row_that_is_the_last(const void* params) { load_row(of(params).last_rows, 3); }

}  // namespace tandem::testing
