// A kernel with a planted fault, and what the model has to say about it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "forward/image.hpp"
#include "machine/diagnosis.hpp"

namespace tandem::testing {

struct ExpectedDiagnosis {
  model::Fault fault;
  std::string object;  // part of its name
};

struct PlantedFault {
  std::string name;
  ForwardSpec spec;
  std::int64_t seqlen_q = 0, seqlen_k = 0;  // that the fault shows on
  int missing_columns = 0;                  // of its tensors, beside the spec's tiles
  model::KernelImage kernel;
  std::vector<ExpectedDiagnosis> expected;  // any of them names the fault rightly; empty: a clean kernel
};

// In the order of tests/faults/table.py, then the clean kernels. Written by plant.py.
std::vector<PlantedFault> planted_faults();

template <ForwardSpec kSpec>
PlantedFault planted(const std::string& name, void (*entry)(const void*), std::int64_t seqlen_q, std::int64_t seqlen_k, int missing_columns,
                     std::vector<ExpectedDiagnosis> expected) {
  return {name, kSpec, seqlen_q, seqlen_k, missing_columns, model::forward_image<kSpec>(name, entry), std::move(expected)};
}

}  // namespace tandem::testing
