// Running one kernel launch in the model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "machine/diagnosis.hpp"
#include "machine/global_memory.hpp"
#include "machine/layout.hpp"

namespace tandem::model {

// A kernel compiled for the host, and what the model must know of it.
struct KernelImage {
  std::string name;
  void (*entry)(const void* params) = nullptr;
  int threads = 0;
  int ctas_per_sm = 1;  // of its launch bounds: with `threads` it caps the registers at launch
  int cluster = 1;
  std::uint32_t shared_bytes = 0;
  SharedLayout shared;
  std::vector<std::string> named_barriers;                                   // by id
  std::function<std::string(int warp)> role;                                 // "consumer warpgroup 1"
  std::function<std::string(const unsigned char* bytes)> tile;               // text of a SharedField of kind tile
  std::function<std::string(const void* map, const void* params)> map_name;  // which tensor map of the parameters
};

struct Statistics {
  std::uint64_t switches = 0;          // threads resumed
  std::uint64_t loads = 0;             // TMA
  std::uint64_t stores = 0;            // TMA
  std::uint64_t wgmmas = 0;            // one warp's quarter each
  std::uint64_t wavefronts = 0;        // of ldmatrix and stmatrix
  std::uint64_t extra_wavefronts = 0;  // beyond their minimum: bank conflicts

  Statistics& operator+=(const Statistics& other);
};

struct LaunchConfig {
  int grid = 0;
  const void* params = nullptr;
  std::size_t params_bytes = 0;
  GlobalMemory* memory = nullptr;
  std::uint64_t seed = 0;
  bool timed = false;                     // in the order of virtual time instead of a seed's: see timing.hpp
  std::uint64_t most_steps = 1ull << 32;  // of the scheduler and of threads: a kernel that spins takes all of them, an honest one a fraction
};

struct LaunchReport {
  std::optional<Diagnosis> diagnosis;
  Statistics statistics;

  bool ok() const { return !diagnosis.has_value(); }
};

LaunchReport launch(const KernelImage& kernel, const LaunchConfig& config);

// TANDEM_MODEL_SEED if it is set: the one seed to play, whatever the caller asked for.
std::optional<std::uint64_t> seed_from_environment();

}  // namespace tandem::model
