// mbarriers: phases that complete when arrivals and bytes are all there.
#pragma once

#include <cstdint>

#include "machine/block.hpp"

namespace tandem::model {

// The barrier at this offset; a fault if it is none, or if its initialisation is not ordered before `thread`. `fenced`: asynchronous copies
// and other blocks also need fence.mbarrier_init (or fence.proxy.async) by the thread that initialised it.
Mbarrier& find_mbarrier(Machine& machine, Block& block, std::uint32_t offset, Thread& thread, bool fenced);

void initialise(Machine& machine, Block& block, std::uint32_t offset, int arrivals, Thread& thread);
void arrive(Machine& machine, Block& block, Mbarrier& barrier, Thread& thread);
void expect_bytes(Machine& machine, Block& block, Mbarrier& barrier, int bytes, Thread& thread);
void wait(Machine& machine, Block& block, Mbarrier& barrier, std::uint32_t parity, Thread& thread);
// A copy has brought bytes that were meant for `phase`.
void complete_bytes(Machine& machine, Block& block, Mbarrier& barrier, std::uint32_t bytes, std::uint32_t phase, const Thread& issuer);

std::string describe(const Mbarrier& barrier, const Block& block);

}  // namespace tandem::model
