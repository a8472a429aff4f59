// What the host pays: for a call of run once prepared, and for the first call of a process.
#pragma once

#include <string>

#include "backend_choice.hpp"

namespace tandem::cli {

struct HostCost {
  std::string backend;
  double run_median_us = 0, run_p90_us = 0;         // a call of run, without waiting for its end; of the middle one of five processes
  double run_least_us = 0, run_most_us = 0;         // medians of the others
  double cold_ms = 0;                               // context, prepare and the first result, with an empty kernel cache
  double warm_ms = 0;                               // the same once the kernel is in the cache
  double warm_context_ms = 0, warm_prepare_ms = 0;  // parts of it
  double cuda_context_ms = 0;                       // no part of it: the driver's, before a process can have tensors on a GPU
};

// Each first call is made in a process of its own, with a cache folder that is removed afterwards.
HostCost measure_host_cost(const BackendChoice& choice, DataType dtype);

}  // namespace tandem::cli
