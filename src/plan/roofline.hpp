// Cycles that one step of a tile (block_m queries by block_n keys) asks of each unit of a multiprocessor.
// Rates: architecture (Hopper white paper) and the measurements recorded in docs/ARCHITECTURE.md.
#pragma once

#include <string_view>

#include "attention/spec.hpp"

namespace tandem {

struct Roofline {
  double tensor = 0;        // WGMMA: m64nNk16 takes N / 2 cycles
  double interference = 0;  // tensor cycles lost to FP32 instructions that take the register file
  double exp = 0;           // MUFU: 16 a cycle
  double shared = 0;        // shared memory: 128 bytes a cycle, operands of WGMMA and arriving tiles
  double issue = 0;         // warp instructions: 4 a cycle

  double bound() const;  // of the step: the largest, tensor with its interference
  std::string_view binding() const;
};

Roofline roofline(const ForwardSpec& spec);

// Multiprocessor cycles for a tile with `steps` key blocks, work between tiles included: a model, used where nothing was measured.
double tile_cycles(const ForwardSpec& spec, double steps);

}  // namespace tandem
