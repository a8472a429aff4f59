// How a seed plays: what it lets run early, what it holds back until nothing else can move. Faults show at the extremes, so most seeds
// drive each engine to one of them; fair play is one choice among several.
#pragma once

#include <cstdint>

#include "machine/random.hpp"

namespace tandem::model {

struct Policy {
  // Chance, of 256, that a pending operation of that engine takes a step although threads could run. 0: only when no thread can.
  std::uint32_t load = 32;
  std::uint32_t store = 32;
  std::uint32_t wgmma = 32;
  std::uint32_t stay = 240;       // of 256: go on with the same warp while it can run
  std::uint32_t preempt = 4;      // of 256: leave a thread at an operation that does not block
  std::uint32_t hold_slow = 0;    // of 256: pass over a slow warp when it was drawn
  std::uint32_t slow_warps = 0;   // chance, of 256, that a warp is a slow one
  std::uint32_t load_pieces = 1;  // a load lands, and completes its bytes, in so many pieces
  bool random_lanes = false;      // lanes of a warp in any order, else from the lowest
  int resident_clusters = 1;      // clusters that run beside each other in the one OS thread

  static Policy draw(Random& random);
  // Of a launch that is timed, where chance decides nothing.
  static Policy in_time(int resident);
};

}  // namespace tandem::model
