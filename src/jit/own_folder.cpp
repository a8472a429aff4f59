#include "jit/own_folder.hpp"

#include <dlfcn.h>
#include <link.h>

namespace tandem::jit {

std::filesystem::path own_folder() {
  Dl_info info{};
  void* entry = nullptr;
  if (dladdr1(reinterpret_cast<const void*>(&own_folder), &info, &entry, RTLD_DL_LINKMAP) == 0 || entry == nullptr) return {};
  // The loader has no name for the program itself; dli_fname would be argv[0], which need not be a path.
  const char* name = static_cast<const link_map*>(entry)->l_name;
  std::error_code error;
  return std::filesystem::canonical(*name == '\0' ? "/proc/self/exe" : name, error).parent_path();
}

}  // namespace tandem::jit
