#include "model_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <string>

namespace tandem::cli {
namespace {

constexpr const char* kModelLibrary = "libtandem_model.so";

Status open_model() {
  std::error_code error;
  const auto executable = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string beside = (executable.parent_path().parent_path() / "lib" / kModelLibrary).string();
  // Stays open: its backend is in use as long as the process lives.
  void* library = nullptr;
  std::string trouble;
  for (const std::string& file : {beside, std::string(kModelLibrary)}) {
    if (library = ::dlopen(file.c_str(), RTLD_NOW); library != nullptr) break;
    if (trouble.empty() || std::filesystem::exists(file, error)) trouble = ::dlerror();
  }
  if (library == nullptr)
    return {StatusCode::unavailable,
            fmt::format("the Hopper model could not be opened; build the target tandem_model (CMake option TANDEM_BUILD_MODEL): {}", trouble)};
  const auto register_model = reinterpret_cast<void (*)()>(::dlsym(library, "tandem_model_register"));
  if (register_model == nullptr)
    return {StatusCode::unavailable, fmt::format("{} does not export tandem_model_register: it is of another version", kModelLibrary)};
  register_model();
  return {};
}

}  // namespace

Status load_model() {
  static const Status status = open_model();
  return status;
}

}  // namespace tandem::cli
