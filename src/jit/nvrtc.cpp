#include "jit/nvrtc.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "jit/own_folder.hpp"

namespace tandem::jit {
namespace {

namespace fs = std::filesystem;

// Folders nvidia/*/lib of the Python environments under `root` (lib/python3.x/site-packages).
void add_python_folders(const fs::path& root, std::vector<fs::path>& folders) {
  std::error_code error;
  for (const auto& python : fs::directory_iterator(root / "lib", error)) {
    if (!python.path().filename().string().starts_with("python3")) continue;
    for (const auto& package : fs::directory_iterator(python.path() / "site-packages" / "nvidia", error)) folders.push_back(package.path() / "lib");
  }
}

std::vector<fs::path> candidates() {
  std::vector<fs::path> folders;
  const auto add_environment = [&](const char* name, const char* below) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') folders.push_back(fs::path(value) / below);
  };
  add_environment("CUDA_HOME", "lib64");
  add_environment("CUDA_PATH", "lib64");
  if (const char* value = std::getenv("VIRTUAL_ENV")) add_python_folders(value, folders);
  if (const fs::path own = own_folder(); !own.empty()) {
    add_python_folders(own.parent_path() / "venv", folders);  // build/bin or build/lib beside build/venv
    std::error_code error;                                    // site-packages/<this package>/ beside site-packages/nvidia
    for (const auto& package : fs::directory_iterator(own.parent_path() / "nvidia", error)) folders.push_back(package.path() / "lib");
  }
  folders.emplace_back("/usr/local/cuda/lib64");

  std::vector<fs::path> files;
  if (const char* value = std::getenv("TANDEM_NVRTC"); value != nullptr && *value != '\0') files.emplace_back(value);
  for (const fs::path& folder : folders) {
    std::error_code error;
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("libnvrtc.so.") && name.find('.', 12) == std::string::npos) found.push_back(entry.path());
    }
    std::sort(found.rbegin(), found.rend());  // the newest first
    files.insert(files.end(), found.begin(), found.end());
  }
  for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}) files.emplace_back(name);
  return files;
}

// NVRTC opens its builtins by name: they have to be in the process already unless they are on the loader's path.
void open_builtins(const fs::path& nvrtc_file) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(nvrtc_file.parent_path(), error))
    if (entry.path().filename().string().starts_with("libnvrtc-builtins.so.")) dlopen(entry.path().c_str(), RTLD_NOW | RTLD_GLOBAL);
}

Result<Nvrtc> open_nvrtc() {
  std::string tried;
  for (const fs::path& file : candidates()) {
    tried += (tried.empty() ? "" : ", ") + file.string();
    if (file.has_parent_path()) open_builtins(file);
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    Nvrtc api{};
    bool complete = true;
    const auto load = [&](auto& entry, const char* name) {
      entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(dlsym(library, name));
      complete = complete && entry != nullptr;
    };
    load(api.version_of, "nvrtcVersion");
    load(api.error_string, "nvrtcGetErrorString");
    load(api.create_program, "nvrtcCreateProgram");
    load(api.destroy_program, "nvrtcDestroyProgram");
    load(api.compile_program, "nvrtcCompileProgram");
    load(api.log_size, "nvrtcGetProgramLogSize");
    load(api.log, "nvrtcGetProgramLog");
    load(api.cubin_size, "nvrtcGetCUBINSize");
    load(api.cubin, "nvrtcGetCUBIN");
    if (!complete || api.version_of(&api.major, &api.minor) != NVRTC_SUCCESS || api.major < 12) {
      dlclose(library);
      continue;
    }
    Dl_info info{};
    api.path = dladdr(reinterpret_cast<const void*>(api.version_of), &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : file.string();
    return api;
  }
  return Status(
      StatusCode::unavailable,
      fmt::format("NVRTC 12 or later was not found; install the pip package nvidia-cuda-nvrtc, or set TANDEM_NVRTC to libnvrtc.so.13 (tried {})", tried));
}

}  // namespace

Result<const Nvrtc*> nvrtc() {
  static const Result<Nvrtc> opened = open_nvrtc();
  if (!opened.ok()) return opened.status();
  return &opened.value();
}

}  // namespace tandem::jit
