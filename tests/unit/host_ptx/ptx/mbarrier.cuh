#pragma once
#include "ptx/platform.cuh"

namespace tandem::ptx {

struct Barrier {
  u64 word;
};
inline void mbarrier_init(Barrier& /*barrier*/, int /*arrivals*/) {}
inline void mbarrier_arrive_expect_tx(Barrier& /*barrier*/, int /*bytes*/) {}
inline void mbarrier_arrive(Barrier& /*barrier*/) {}
inline void mbarrier_arrive_remote(Barrier& /*barrier*/, int /*cta_rank*/) {}
inline void mbarrier_wait(Barrier& /*barrier*/, u32 /*parity*/) {}

}  // namespace tandem::ptx
