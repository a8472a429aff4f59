// tandem cache: the folder of compiled kernels.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "command.hpp"
#include "failure.hpp"
#include "jit/kernel_cache.hpp"
#include "json_output.hpp"
#include "table.hpp"
#include "terminal.hpp"

namespace tandem::cli {
namespace {

struct CacheOptions {
  std::string cache_dir;
  bool json = false;
};

jit::KernelCache open_cache(const CacheOptions& options) {
  jit::KernelCache cache(options.cache_dir);
  if (cache.folder().empty()) fail("there is no cache folder: neither TANDEM_CACHE_DIR nor XDG_CACHE_HOME nor HOME is set; pass --cache-dir");
  return cache;
}

void path(const CacheOptions& options) {
  const jit::KernelCache cache = open_cache(options);
  if (options.json)
    print_json({{"command", "cache path"}, {"folder", cache.folder().string()}});
  else
    print_line(cache.folder().string());
}

void list(const CacheOptions& options) {
  const jit::KernelCache cache = open_cache(options);
  const auto entries = cache.entries();
  std::uintmax_t bytes = 0;
  for (const auto& entry : entries) bytes += entry.bytes;
  if (options.json) {
    Json json{{"command", "cache list"}, {"folder", cache.folder().string()}, {"bytes", bytes}, {"entries", Json::array()}, {"packs", Json::array()}};
    for (const auto& entry : entries) json["entries"].push_back({{"file", entry.path.filename().string()}, {"bytes", entry.bytes}, {"valid", entry.valid}});
    for (const auto& pack : cache.packs()) json["packs"].push_back({{"folder", pack.folder.string()}, {"nvrtc", pack.nvrtc_version}});
    print_json(json);
    return;
  }
  Table table({"<entry", "bytes", "<state"});
  for (const auto& entry : entries)
    table.add({entry.path.filename().string(), std::to_string(entry.bytes), entry.valid ? "valid" : paint(Ink::bad, "corrupt: counts as missing")});
  if (!table.empty()) table.print();
  print_line(fmt::format("{} entries, {:.1f} MB in {}", entries.size(), static_cast<double>(bytes) / 1e6, cache.folder().string()));
  for (const auto& pack : cache.packs()) print_line(fmt::format("pack of NVRTC {}, read first: {}", pack.nvrtc_version, pack.folder.string()));
}

void verify(const CacheOptions& options, int& exit_code) {
  const jit::KernelCache cache = open_cache(options);
  const auto entries = cache.entries();
  Json corrupt = Json::array();
  for (const auto& entry : entries)
    if (!entry.valid) corrupt.push_back(entry.path.filename().string());
  exit_code = corrupt.empty() ? kExitOk : kExitCheckFailed;
  if (options.json) {
    print_json({{"command", "cache verify"}, {"folder", cache.folder().string()}, {"entries", entries.size()}, {"corrupt", corrupt}});
    return;
  }
  for (const auto& name : corrupt) print_line(fmt::format("{}: {}", paint(Ink::bad, "corrupt"), name.get<std::string>()));
  print_line(fmt::format("{} of {} entries are valid in {}{}", entries.size() - corrupt.size(), entries.size(), cache.folder().string(),
                         corrupt.empty() ? "" : "; corrupt ones count as missing and are compiled again, `tandem cache clear` removes all"));
}

void clear(const CacheOptions& options) {
  const jit::KernelCache cache = open_cache(options);
  const std::size_t removed = cache.clear();
  if (options.json)
    print_json({{"command", "cache clear"}, {"folder", cache.folder().string()}, {"removed", removed}});
  else
    print_line(fmt::format("removed {} entries from {}", removed, cache.folder().string()));
}

}  // namespace

void add_cache(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("cache", "The folder of compiled kernels");
  command->require_subcommand(1);
  const auto options = std::make_shared<CacheOptions>();
  const auto add = [&](const char* name, const char* text, auto action) {
    CLI::App* sub = command->add_subcommand(name, text);
    sub->add_option("--cache-dir", options->cache_dir, "folder; default: TANDEM_CACHE_DIR, else XDG_CACHE_HOME/tandem, else ~/.cache/tandem");
    sub->add_flag("--json", options->json, "output for machines");
    sub->callback(action);
  };
  add("list", "what it holds", [options] { list(*options); });
  add("path", "where it is", [options] { path(*options); });
  add("clear", "remove all entries", [options] { clear(*options); });
  add("verify", "read every entry; exit code 1 if one is corrupt", [options, &exit_code] { verify(*options, exit_code); });
}

}  // namespace tandem::cli
