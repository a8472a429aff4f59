// One forward call in the model: parameters and tensor maps as for the GPU, and the tensors registered as the only memory there is.
#pragma once

#include <cstdint>

#include "attention/spec.hpp"
#include "common/tensor.hpp"
#include "machine/launch.hpp"

namespace tandem::model {

struct ForwardLaunch {
  const KernelImage* kernel = nullptr;
  ForwardSpec spec;
  ForwardProblem problem;
  ForwardCall call;
  int multiprocessors = 4;  // few: each block then works on several tiles, and hands over between them
  std::int64_t section_bytes = 1 << 20;
  void* workspace = nullptr;  // as the geometry asks for it; nullptr: one of its own
  std::uint64_t seed = 0;
  bool timed = false;  // in virtual time: what a kernel that notes a timeline is run for
};

// Of the launches that a call takes, the report of the first that failed, else of the last.
LaunchReport run_forward(const ForwardLaunch& launch);

}  // namespace tandem::model
