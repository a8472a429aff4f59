// Where this code lies on disk: compilers and kernel packs are looked for beside it.
#pragma once

#include <filesystem>

namespace tandem::jit {

// Folder of the binary that holds this code: the shared library, or an executable that links it in. Empty if it cannot be told.
std::filesystem::path own_folder();

}  // namespace tandem::jit
