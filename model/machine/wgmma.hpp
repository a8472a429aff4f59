// Warpgroup MMA. Each warp owns 16 of the 64 rows of D and runs its quarter of every instruction by itself: the wait of one warp says nothing
// about its neighbours. Until that wait any part of A and B may be read on its behalf. A warp's instructions run in order.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "machine/operand.hpp"

namespace tandem::model {

class Machine;
struct Thread;
struct Warp;

enum class OperandType : int { fp16, bf16 };

// What one lane says.
struct WgmmaInstruction {
  OperandType type = OperandType::bf16;
  int n = 0;
  bool a_in_registers = false;
  Contiguous b_contiguous = Contiguous::k;
  bool accumulate = false;
  std::uint64_t a_descriptor = 0;
  std::uint64_t b_descriptor = 0;
  float* d = nullptr;                          // n / 2
  const std::uint32_t* a_registers = nullptr;  // 4
  const void* pc = nullptr;

  // What all lanes of a warp must agree on.
  bool same_as(const WgmmaInstruction& other) const {
    return type == other.type && n == other.n && a_in_registers == other.a_in_registers && b_contiguous == other.b_contiguous &&
           accumulate == other.accumulate && a_descriptor == other.a_descriptor && b_descriptor == other.b_descriptor;
  }
};

// Accumulators of a warp while they are in flight: the registers read as poison, the numbers are here.
struct AccumulatorInFlight {
  std::array<float*, 32> lanes{};
  int n = 0;
  std::uint32_t last = 0;     // number of the last instruction that adds to it
  std::vector<float> values;  // 16 x n
};

struct WgmmaInFlight {
  WgmmaInstruction instruction;
  std::array<const std::uint32_t*, 32> a_lanes{};  // A in registers
  std::vector<float> a_values;                     // the same as 16 x 16; read at issue, and nobody may change them until the wait
  const OperandUnits* a_units = nullptr;           // A in shared memory
  const OperandUnits* b_units = nullptr;
  AccumulatorInFlight* accumulator = nullptr;
};

struct WarpTensorCore {
  std::deque<WgmmaInFlight> flight;  // issued and not waited for, oldest first
  std::uint32_t issued = 0;
  std::uint32_t executed = 0;
  std::uint32_t retired = 0;           // waited for
  std::vector<std::uint32_t> commits;  // instructions issued before each commit
  std::deque<std::unique_ptr<AccumulatorInFlight>> accumulators;
};

// The last lane of the warp has come: all lanes' `unissued` instructions start.
void issue_wgmmas(Machine& machine, Thread& last);

// Runs the warp's oldest instruction that has not run; its operands in shared memory are read now.
void execute_wgmma(Machine& machine, Warp& warp);

// All but the youngest `groups` committed groups must have run. Afterwards their accumulators hold their values.
std::uint32_t wgmma_target(const WarpTensorCore& core, std::uint32_t groups);
void retire_wgmmas(Machine& machine, Warp& warp, std::uint32_t target);

}  // namespace tandem::model
