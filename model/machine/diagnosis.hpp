// What the model says when a kernel breaks a rule of the machine: which rule, at which object, by whom, where in the source, on which seed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::model {

enum class Fault : int {
  deadlock,               // nothing can move and threads still wait
  race,                   // two accesses to shared memory, one of them a write, that no hand-off orders
  missing_proxy_fence,    // ordinary stores met TMA or WGMMA without fence.proxy.async between
  uninitialised_read,     // shared memory that nobody wrote
  accumulator_in_flight,  // accumulators touched between a WGMMA and the wait that covers it
  operand_in_flight,      // A registers changed in that time
  missing_wgmma_fence,    // registers of a WGMMA touched by ordinary code after the last wgmma.fence
  barrier_misuse,         // not initialised, initialised twice or not visibly, touched as ordinary memory
  barrier_over_arrival,   // more arrivals in a phase than the barrier counts
  transaction_count,      // bytes that arrive are not the bytes that were expected
  named_barrier,          // bar.sync and bar.arrive that do not fit together
  register_pool,          // setmaxnreg out of range, in the wrong direction, or more than the file holds
  diverged_warp,          // lanes of a warp in different collective operations
  descriptor,             // an operand descriptor or tensor map that the hardware does not accept
  operand_layout,         // a descriptor that gathers something else than a matrix out of the loaded tile
  shared_out_of_bounds,   // outside the block's shared memory, or across the buffers in it
  global_out_of_bounds,   // global memory that is no part of a tensor of the call
  global_overwrite,       // an output element written twice
  unwritten_output,       // an output element never written
  misaligned,             // an address that the instruction does not accept
  bank_conflict,          // ldmatrix or stmatrix with more wavefronts than it needs
  unfinished_work,        // a block exits while copies or WGMMAs still use its memory
  livelock,               // the launch does not end
  wrong_result,           // for checkers above the model: it ran, and the numbers are wrong
};

std::string_view name_of(Fault fault);

struct Diagnosis {
  Fault fault = Fault::deadlock;
  std::string object;   // "k[1]", "k_ring.empty[0]", "accumulator of 64 floats"
  std::string message;  // one sentence
  std::string actor;    // "block 0, consumer warpgroup 1, warp 9 (lane 3)"
  std::string where;    // source line and the calls above it, as far as they are inlined
  std::string tile;     // what the actor works on, if the kernel tells
  std::string state;    // barriers and waiting warps, many lines
  std::string kernel;
  std::uint64_t seed = 0;

  // All of it, for people.
  std::string text() const;
};

}  // namespace tandem::model
