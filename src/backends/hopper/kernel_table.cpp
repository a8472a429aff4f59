#include "backends/hopper/kernel_table.hpp"

#include "attention/budget.hpp"

namespace tandem {

KernelTable::~KernelTable() {
  for (auto& [spec, kernel] : loaded_) driver_.library_unload(kernel.library);
  if (prepare_.library != nullptr) driver_.library_unload(prepare_.library);
}

Result<CUfunction> KernelTable::get(const ForwardSpec& spec) {
  {
    const std::shared_lock lock(mutex_);
    if (const auto found = loaded_.find(spec); found != loaded_.end()) return found->second.function;
  }
  const std::unique_lock lock(mutex_);  // one load at a time; who came second finds it
  if (const auto found = loaded_.find(spec); found != loaded_.end()) return found->second.function;
  auto compiled = store_.get(spec);
  if (!compiled.ok()) return compiled.status();
  auto loaded = load(compiled.value(), jit::kEntryName, budget::shared_ledger(spec).total());
  if (!loaded.ok()) return loaded.status();
  loaded_.emplace(spec, loaded.value());
  return loaded.value().function;
}

Result<CUfunction> KernelTable::get_prepare() {
  const std::unique_lock lock(mutex_);
  if (prepare_.function != nullptr) return prepare_.function;
  auto compiled = store_.get_prepare();
  if (!compiled.ok()) return compiled.status();
  auto loaded = load(compiled.value(), jit::kPrepareEntryName, 0);
  if (!loaded.ok()) return loaded.status();
  prepare_ = loaded.value();
  return prepare_.function;
}

Result<KernelTable::Loaded> KernelTable::load(const jit::CompiledKernel& compiled, std::string_view entry, int shared_bytes) const {
  const cuda::ContextScope scope(driver_, context_);
  if (scope.result() != CUDA_SUCCESS) return cuda::failure(driver_, scope.result(), "cuCtxPushCurrent");

  Loaded loaded;
  if (const CUresult result = driver_.library_load_data(&loaded.library, compiled.cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
      result != CUDA_SUCCESS)
    return cuda::failure(driver_, result, "cuLibraryLoadData");
  CUkernel kernel = nullptr;
  CUresult result = driver_.library_get_kernel(&kernel, loaded.library, entry.data());
  const char* call = "cuLibraryGetKernel";
  if (result == CUDA_SUCCESS) {
    call = "cuKernelGetFunction";  // loads the code into this context now: a run must not
    result = driver_.kernel_get_function(&loaded.function, kernel);
  }
  if (result == CUDA_SUCCESS) {
    call = "cuFuncSetAttribute";
    result = driver_.func_set_attribute(loaded.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes);
  }
  if (result != CUDA_SUCCESS) {
    driver_.library_unload(loaded.library);
    return cuda::failure(driver_, result, call);
  }
  return loaded;
}

}  // namespace tandem
