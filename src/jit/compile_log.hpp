// What NVRTC and ptxas said about a kernel. NVRTC reports success even where ptxas gave up on performance, so its log is read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem::jit {

struct CompileReport {
  int registers = 0;
  int spill_bytes = 0;  // stores and loads
  int stack_bytes = 0;
  // C75xx: setmaxnreg ignored (C7508), WGMMA serialised (C7510-C7514, C7519), waits injected (C7517).
  std::vector<std::string> advisories;

  bool clean() const { return spill_bytes == 0 && advisories.empty(); }
};

CompileReport read_compile_log(std::string_view log);

}  // namespace tandem::jit
