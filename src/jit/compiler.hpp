// One kernel, from its spec to a cubin.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attention/spec.hpp"
#include "jit/compile_log.hpp"
#include "tandem/result.hpp"

namespace tandem::jit {

struct CompiledKernel {
  std::string cubin;
  CompileReport report;
  double seconds = 0;  // 0 if it came from a cache
};

// The text that is compiled: the spec, and the entry point that reads it.
std::string kernel_source(const ForwardSpec& spec);

// Options of every compilation, in order; part of the cache key.
std::span<const char* const> compile_options();

// The kernel that makes the tile list of a ragged batch; there is one.
inline constexpr std::string_view kPrepareName = "prepare_ragged";
std::string prepare_source();

inline constexpr std::string_view kEntryName = "tandem_forward";
inline constexpr std::string_view kPrepareEntryName = "tandem_prepare";
inline constexpr std::string_view kArchitecture = "sm_90a";

// Compiles `source` against the embedded kernel sources. Fails with the compiler's log.
Result<CompiledKernel> compile(const std::string& source, const std::string& name);

}  // namespace tandem::jit
