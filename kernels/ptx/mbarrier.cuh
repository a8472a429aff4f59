// mbarrier: a phase completes when its pending arrivals and its pending transaction bytes are both zero.
// A wait names the parity of the phase that it waits for: a fresh barrier is in phase 0, so waiting for parity 1 returns at once.
#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

struct Barrier {
  u64 word;
};

TANDEM_DEVICE void mbarrier_init(Barrier& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals) : "memory");
}

// One arrival that also adds the bytes which asynchronous copies will complete. The clobber keeps earlier shared accesses before it.
TANDEM_DEVICE void mbarrier_arrive_expect_tx(Barrier& barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(bytes) : "memory");
}

TANDEM_DEVICE void mbarrier_arrive(Barrier& barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory"); }

// Arrives at the barrier in the same place of CTA `cta_rank` of the cluster.
TANDEM_DEVICE void mbarrier_arrive_remote(Barrier& barrier, int cta_rank) {
  asm volatile(
      "{\n.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(shared_address(&barrier)),
      "r"(cta_rank)
      : "memory");
}

// Returns when the phase of that parity has completed. Memory clobber: what the barrier guards may be read only below.
TANDEM_DEVICE void mbarrier_wait(Barrier& barrier, u32 parity) {
  asm volatile(
      "{\n.reg .pred p;\n"
      "retry_%=:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@p bra done_%=;\n"
      "bra retry_%=;\n"
      "done_%=:\n}" ::"r"(shared_address(&barrier)),
      "r"(parity)
      : "memory");
}

}  // namespace tandem::ptx
