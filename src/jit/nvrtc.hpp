// NVRTC, opened at run time: from TANDEM_NVRTC, what the process already holds, the system, CUDA_HOME, or the pip package's folder.
#pragma once

#include <nvrtc.h>

#include <string>

#include "tandem/result.hpp"

namespace tandem::jit {

struct Nvrtc {
  decltype(&::nvrtcVersion) version_of;
  decltype(&::nvrtcGetErrorString) error_string;
  decltype(&::nvrtcCreateProgram) create_program;
  decltype(&::nvrtcDestroyProgram) destroy_program;
  decltype(&::nvrtcCompileProgram) compile_program;
  decltype(&::nvrtcGetProgramLogSize) log_size;
  decltype(&::nvrtcGetProgramLog) log;
  decltype(&::nvrtcGetCUBINSize) cubin_size;
  decltype(&::nvrtcGetCUBIN) cubin;
  int major = 0, minor = 0;
  std::string path;

  std::string version() const { return std::to_string(major) + "." + std::to_string(minor); }
};

// Opened once a process. Fails with `unavailable` and the places that were tried.
Result<const Nvrtc*> nvrtc();

}  // namespace tandem::jit
