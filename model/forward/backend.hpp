// The backend "model": the shipped Hopper kernels, run on a CPU.
#pragma once

#include "backends/backend.hpp"

namespace tandem::model {

// Plays one interleaving a run. The seed of run n of an executable is n; TANDEM_MODEL_SEED fixes it. A diagnosis is the status of the run.
Result<std::unique_ptr<Backend>> make_model_backend(const BackendOptions& options);

}  // namespace tandem::model

// For whoever opens the library at run time: registers the backend under the name "model".
extern "C" __attribute__((visibility("default"))) void tandem_model_register();
