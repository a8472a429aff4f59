#include "jit/compiler.hpp"

#include <fmt/format.h>

#include <chrono>

#include "jit/embedded_sources.hpp"
#include "jit/nvrtc.hpp"
#include "plan/spec_text.hpp"

namespace tandem::jit {
namespace {

// Destroys the program on every way out.
class Program {
 public:
  explicit Program(const Nvrtc& api) : api_(api) {}
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (program_ != nullptr) api_.destroy_program(&program_);
  }

  nvrtcProgram* slot() { return &program_; }
  nvrtcProgram get() const { return program_; }

 private:
  const Nvrtc& api_;
  nvrtcProgram program_ = nullptr;
};

Status failure(const Nvrtc& api, nvrtcResult result, const char* call) {
  return {StatusCode::compile_error, fmt::format("{} failed: {}", call, api.error_string(result))};
}

}  // namespace

std::string kernel_source(const ForwardSpec& spec) {
  return fmt::format("#include \"attention/spec.hpp\"\nconstexpr tandem::ForwardSpec kSpec = {};\n#include \"entry/forward.cu\"\n", to_initializer(spec));
}

std::string prepare_source() { return "#include \"entry/prepare.cu\"\n"; }

std::span<const char* const> compile_options() {
  static constexpr const char* kOptions[] = {
      "--gpu-architecture=sm_90a", "--std=c++20", "--ptxas-options=-v", "--no-cache",  // the log matters: never a hit of NVRTC's own cache
      "--diag-error=161",                                                              // an unknown pragma is an error
      "-default-device",
  };
  return kOptions;
}

Result<CompiledKernel> compile(const std::string& source, const std::string& name) {
  const auto opened = nvrtc();
  if (!opened.ok()) return opened.status();
  const Nvrtc& api = *opened.value();

  std::vector<const char*> texts, paths;
  for (const EmbeddedSource& file : embedded_sources()) {
    texts.push_back(file.text);
    paths.push_back(file.path);
  }
  const auto start = std::chrono::steady_clock::now();
  Program program(api);
  nvrtcResult result = api.create_program(program.slot(), source.c_str(), (name + ".cu").c_str(), static_cast<int>(texts.size()), texts.data(), paths.data());
  if (result != NVRTC_SUCCESS) return failure(api, result, "nvrtcCreateProgram");

  const auto fixed = compile_options();
  std::vector<const char*> options(fixed.begin(), fixed.end());
  // Leaves out builtins that no kernel uses: the same code, a tenth sooner, so no part of the key. Compilers before 13 may not know it.
  if (api.major >= 13) options.push_back("--minimal");
  const nvrtcResult compiled = api.compile_program(program.get(), static_cast<int>(options.size()), options.data());

  std::size_t log_size = 0;
  std::string log;
  if (api.log_size(program.get(), &log_size) == NVRTC_SUCCESS && log_size > 1) {
    log.resize(log_size);
    api.log(program.get(), log.data());
    log.resize(log_size - 1);  // its terminating zero
  }
  if (compiled != NVRTC_SUCCESS)
    return Status(StatusCode::compile_error, fmt::format("kernel {} did not compile ({}): {}", name, api.error_string(compiled), log));

  CompiledKernel kernel;
  std::size_t cubin_size = 0;
  if (result = api.cubin_size(program.get(), &cubin_size); result != NVRTC_SUCCESS) return failure(api, result, "nvrtcGetCUBINSize");
  kernel.cubin.resize(cubin_size);
  if (result = api.cubin(program.get(), kernel.cubin.data()); result != NVRTC_SUCCESS) return failure(api, result, "nvrtcGetCUBIN");
  kernel.report = read_compile_log(log);
  kernel.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return kernel;
}

}  // namespace tandem::jit
