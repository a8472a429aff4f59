// From a spec to a kernel, by cache or compiler: the policy above both.
#pragma once

#include <functional>
#include <string>

#include "jit/kernel_cache.hpp"

namespace tandem::jit {

class KernelStore {
 public:
  explicit KernelStore(KernelCache cache) : cache_(std::move(cache)) {}

  // Says what is compiled, before and after; `seconds` is negative before. May be empty.
  using Progress = std::function<void(const std::string& name, double seconds)>;

  Result<CompiledKernel> get(const ForwardSpec& spec, const Progress& progress = {}) const;
  // The kernel that runs before a ragged forward.
  Result<CompiledKernel> get_prepare(const Progress& progress = {}) const;

  const KernelCache& cache() const { return cache_; }

 private:
  // `option`: what `tandem compile` takes to build it.
  Result<CompiledKernel> get(const std::string& name, const std::string& source, const std::string& option, const Progress& progress) const;

  KernelCache cache_;
};

}  // namespace tandem::jit
