// The environment variable by which the planner takes changes of a spec, set for a scope.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace tandem::cli {

class SpecOverride {
 public:
  // Empty: what stands in the environment stays.
  explicit SpecOverride(const std::string& spec) : active_(!spec.empty()) {
    if (!active_) return;
    if (const char* before = std::getenv(kName)) before_ = before;
    ::setenv(kName, spec.c_str(), 1);
  }
  SpecOverride(const SpecOverride&) = delete;
  SpecOverride& operator=(const SpecOverride&) = delete;
  ~SpecOverride() {
    if (!active_) return;
    if (before_)
      ::setenv(kName, before_->c_str(), 1);
    else
      ::unsetenv(kName);
  }

 private:
  static constexpr const char* kName = "TANDEM_FORWARD_SPEC";

  bool active_;
  std::optional<std::string> before_;
};

}  // namespace tandem::cli
