#include "backends/hopper/kernel_table.hpp"

#include "attention/budget.hpp"

namespace tandem {

KernelTable::~KernelTable() {
  for (auto& [spec, kernel] : loaded_) driver_.library_unload(kernel.library);
}

Result<CUfunction> KernelTable::get(const ForwardSpec& spec) {
  {
    const std::shared_lock lock(mutex_);
    if (const auto found = loaded_.find(spec); found != loaded_.end()) return found->second.function;
  }
  const std::unique_lock lock(mutex_);  // one load at a time; who came second finds it
  if (const auto found = loaded_.find(spec); found != loaded_.end()) return found->second.function;
  auto loaded = load(spec);
  if (!loaded.ok()) return loaded.status();
  loaded_.emplace(spec, loaded.value());
  return loaded.value().function;
}

Result<KernelTable::Loaded> KernelTable::load(const ForwardSpec& spec) const {
  auto compiled = store_.get(spec);
  if (!compiled.ok()) return compiled.status();
  const cuda::ContextScope scope(driver_, context_);
  if (scope.result() != CUDA_SUCCESS) return cuda::failure(driver_, scope.result(), "cuCtxPushCurrent");

  Loaded loaded;
  if (const CUresult result = driver_.library_load_data(&loaded.library, compiled.value().cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
      result != CUDA_SUCCESS)
    return cuda::failure(driver_, result, "cuLibraryLoadData");
  CUkernel kernel = nullptr;
  CUresult result = driver_.library_get_kernel(&kernel, loaded.library, jit::kEntryName.data());
  const char* call = "cuLibraryGetKernel";
  if (result == CUDA_SUCCESS) {
    call = "cuKernelGetFunction";  // loads the code into this context now: a run must not
    result = driver_.kernel_get_function(&loaded.function, kernel);
  }
  if (result == CUDA_SUCCESS) {
    call = "cuFuncSetAttribute";
    result = driver_.func_set_attribute(loaded.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, budget::shared_ledger(spec).total());
  }
  if (result != CUDA_SUCCESS) {
    driver_.library_unload(loaded.library);
    return cuda::failure(driver_, result, call);
  }
  return loaded;
}

}  // namespace tandem
