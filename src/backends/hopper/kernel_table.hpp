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
  // The one that makes the tile list of a ragged batch.
  Result<CUfunction> get_prepare();

 private:
  struct Loaded {
    CUlibrary library = nullptr;
    CUfunction function = nullptr;
  };
  struct Hash {
    std::size_t operator()(const ForwardSpec& spec) const { return hash_of(spec); }
  };

  Result<Loaded> load(const jit::CompiledKernel& compiled, std::string_view entry, int shared_bytes) const;

  const cuda::Driver& driver_;
  CUcontext context_;
  jit::KernelStore store_;
  std::shared_mutex mutex_;
  std::unordered_map<ForwardSpec, Loaded, Hash> loaded_;
  Loaded prepare_;
};

}  // namespace tandem
