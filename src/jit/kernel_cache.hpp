// Compiled kernels on disk. An entry is a file named by its key; whatever is wrong with it, it is a miss and never a wrong kernel.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "jit/compiler.hpp"

namespace tandem::jit {

class KernelCache {
 public:
  // `folder`: where entries are written; empty: TANDEM_CACHE_DIR, else XDG_CACHE_HOME/tandem, else ~/.cache/tandem. `ahead_of_time`: folders
  // that are only read, and first; to them come those of TANDEM_AOT_DIR (colons between) and lib/tandem/kernels beside the library.
  explicit KernelCache(std::filesystem::path folder = {}, std::vector<std::filesystem::path> ahead_of_time = {});

  // Key of a source text compiled by this NVRTC version: schema, all embedded sources, source, options and architecture. No path, no time.
  static std::string key(std::string_view source, std::string_view nvrtc_version);

  // Looks in the packs first, by the key of the compiler that made each pack, then in the written folder by the key of `nvrtc_version`.
  // So a pack serves where another NVRTC is installed, or none.
  std::optional<CompiledKernel> find(std::string_view source, std::string_view nvrtc_version) const;

  // The entry, or what `make` returns, stored. Among processes one makes it and the others wait for that; where locking or writing is
  // impossible the kernel is made and used from memory.
  Result<CompiledKernel> find_or_make(std::string_view source, std::string_view nvrtc_version, const std::function<Result<CompiledKernel>()>& make) const;

  // Writes an entry by temporary file, fsync and rename. False if the folder cannot be written.
  bool store(const std::string& key, const CompiledKernel& kernel) const;

  // Marks the written folder as a pack made by this compiler.
  bool label_pack(std::string_view nvrtc_version) const;

  const std::filesystem::path& folder() const { return folder_; }

  struct Pack {
    std::filesystem::path folder;
    std::string nvrtc_version;
  };
  const std::vector<Pack>& packs() const { return packs_; }

  struct Entry {
    std::filesystem::path path;
    std::uintmax_t bytes = 0;
    bool valid = false;
  };
  std::vector<Entry> entries() const;
  // Removes all entries, temporary files and locks of the written folder; returns how many entries went.
  std::size_t clear() const;

 private:
  std::filesystem::path folder_;
  std::vector<Pack> packs_;
};

}  // namespace tandem::jit
