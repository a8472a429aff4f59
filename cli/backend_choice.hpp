// The options that say where attention runs, and what they open.
#pragma once

#include <string>

#include "model_library.hpp"
#include "tandem/tandem.hpp"

namespace CLI {
class App;
}

namespace tandem::cli {

struct BackendChoice {
  std::string backend = "auto";
  int device = 0;
  int threads = 0;
  std::string cache_dir;

  void add_to(CLI::App& app);
  ContextOptions context_options() const { return {.backend = backend, .device = device, .cache_dir = cache_dir, .threads = threads}; }

  // Opens the backend; "model" lives in a library of its own, which is loaded first.
  Context open() const;
};

}  // namespace tandem::cli
