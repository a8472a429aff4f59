// The forward computation of one item, compiled once for each instruction set of the machine's family.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/forward_task.hpp"

namespace tandem::cpu {

struct ForwardKernel {
  const char* target;  // Highway's name of the instruction set
  int lanes;           // fp32 numbers in a vector
  int panel_rows;      // query rows whose accumulators are in registers together
  int tile_keys;       // keys of a tile of K and V

  // What run_item needs, in floats: proportional to rows_per_item + tile_keys and independent of the lengths.
  std::size_t (*scratch_floats)(const ForwardProblem& problem, std::int64_t rows_per_item);

  // Writes the output rows of item `item`. The bits of a row depend on its values alone: not on the item that holds it or the layout.
  void (*run_item)(const ForwardTask& task, std::int64_t item, float* scratch);
};

// For the best instruction set of this machine.
ForwardKernel best_forward_kernel();

}  // namespace tandem::cpu
