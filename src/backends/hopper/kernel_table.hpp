// Kernels loaded on one device, by spec. Looked up by hash, without strings.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "cuda/device.hpp"
#include "jit/kernel_store.hpp"
#include "plan/spec_text.hpp"

namespace tandem {

class KernelTable {
 public:
  KernelTable(const cuda::Driver& driver, CUcontext context, jit::KernelStore store) : driver_(driver), context_(context), store_(std::move(store)) {}
  KernelTable(const KernelTable&) = delete;
  KernelTable& operator=(const KernelTable&) = delete;
  ~KernelTable();

  // The kernel, loaded now if it was not yet: from cache or compiler.
  Result<CUfunction> get(const ForwardSpec& spec);

 private:
  struct Loaded {
    CUlibrary library = nullptr;
    CUfunction function = nullptr;
  };
  struct Hash {
    std::size_t operator()(const ForwardSpec& spec) const { return hash_of(spec); }
  };

  Result<Loaded> load(const ForwardSpec& spec) const;

  const cuda::Driver& driver_;
  CUcontext context_;
  jit::KernelStore store_;
  std::shared_mutex mutex_;
  std::unordered_map<ForwardSpec, Loaded, Hash> loaded_;
};

}  // namespace tandem
