#include "backend_choice.hpp"

#include <CLI/CLI.hpp>

#include "failure.hpp"

namespace tandem::cli {

void BackendChoice::add_to(CLI::App& app) {
  app.add_option("--backend", backend, "auto (the GPU if there is one, else the CPU), cpu, hopper, or model (the kernels on a CPU, slowly)")
      ->check(CLI::IsMember({"auto", "cpu", "hopper", "model"}))
      ->capture_default_str();
  app.add_option("--device", device, "CUDA device ordinal")->check(CLI::NonNegativeNumber)->capture_default_str();
  app.add_option("--threads", threads, "threads of the cpu backend; 0: one for each core")->check(CLI::NonNegativeNumber)->capture_default_str();
  app.add_option("--cache-dir", cache_dir, "folder of compiled kernels; default: TANDEM_CACHE_DIR, else XDG_CACHE_HOME/tandem, else ~/.cache/tandem");
}

Context BackendChoice::open() const {
  if (backend == "model") require(load_model());
  return require(Context::create(context_options()));
}

}  // namespace tandem::cli
