#include "jit/kernel_store.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "jit/nvrtc.hpp"
#include "plan/spec_text.hpp"

namespace tandem::jit {
namespace {

bool jit_is_off() {
  const char* value = std::getenv("TANDEM_JIT");
  return value != nullptr && std::string_view(value) == "off";
}

}  // namespace

Result<CompiledKernel> KernelStore::get(const ForwardSpec& spec, const Progress& progress) const {
  return get(name_of(spec), kernel_source(spec), fmt::format("--spec {}", to_text(spec)), progress);
}

Result<CompiledKernel> KernelStore::get_prepare(const Progress& progress) const {
  return get(std::string(kPrepareName), prepare_source(), "--spec prepare_ragged", progress);
}

Result<CompiledKernel> KernelStore::get(const std::string& name, const std::string& source, const std::string& option, const Progress& progress) const {
  const auto compiler = nvrtc();  // its version is part of the key; without it only packs can serve
  const std::string version = compiler.ok() ? compiler.value()->version() : std::string();
  if (jit_is_off() || !compiler.ok()) {
    if (auto kernel = cache_.find(source, version)) return *std::move(kernel);
    if (!jit_is_off()) return compiler.status();
    return Status(StatusCode::compile_error,
                  fmt::format("kernel {} is not in the cache and TANDEM_JIT is off; build it with: tandem compile {}", name, option));
  }
  return cache_.find_or_make(source, version, [&]() -> Result<CompiledKernel> {
    if (progress) progress(name, -1.0);
    auto made = compile(source, name);
    if (made.ok() && progress) progress(name, made.value().seconds);
    return made;
  });
}

}  // namespace tandem::jit
