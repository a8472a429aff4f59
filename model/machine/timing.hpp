// Virtual time of one multiprocessor: the units that a block keeps busy, and until when. A launch that is timed is played in the order of
// these times, so it has one interleaving, always the same. docs/MODEL.md says where the numbers come from and what is left out.
#pragma once

#include <array>
#include <deque>
#include <string_view>

#include "machine/device.hpp"

namespace tandem::model {

struct Copy;
struct Warp;
struct WgmmaInstruction;

using Cycle = double;

constexpr Cycle kNever = 1e300;

// From the event that a warp waits for to its next instruction.
constexpr Cycle kWakeCycles = 25;
// WGMMAs of a warp that the tensor core takes before the warp has to stand in its issue slot.
constexpr std::uint32_t kWgmmaQueue = 4;

// What an operation of the vocabulary keeps its warp for, beside waiting.
Cycle cycles_of(std::string_view operation);

class Timing {
 public:
  // The moment that the machine plays: of the engine that steps, else of the warp that runs.
  Cycle now = 0;

  // Arithmetic of a warp, from its present time on; moves that time.
  void execute(Warp& warp, device::Arithmetic kind);

  // A warp's quarter of a WGMMA goes to the tensor core of its partition, which takes them in the order of their coming.
  void enqueue(Warp& warp, const WgmmaInstruction& instruction);
  // When the next quarter has been multiplied, and by whom. kNever: nothing is queued.
  Cycle next_multiplied() const { return partitions_[next_partition()].end; }
  Warp& finish_multiplied();

  // When a copy that is issued now arrives, or a store has read its source. A load and what it brings queue for the copy engine.
  Cycle arrival(const Copy& copy);

 private:
  struct Multiplication {
    Warp* warp;
    Cycle cycles;
  };
  // A quarter of the multiprocessor: warps whose index is the same modulo 4 share it.
  struct Partition {
    std::deque<Multiplication> queue;  // the first one runs
    Cycle end = kNever;                // of the first one
    Cycle exp_free = 0, alu_free = 0;  // when the unit takes the next instruction
  };
  std::size_t next_partition() const;
  Partition& partition_of(const Warp& warp);

  std::array<Partition, 4> partitions_;
  Cycle copy_free_ = 0;
};

}  // namespace tandem::model
