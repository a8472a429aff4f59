// tandem doctor: what this machine has, what will be used, and what would bring more.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backend_choice.hpp"
#include "command.hpp"
#include "cuda/device.hpp"
#include "jit/digest.hpp"
#include "jit/kernel_cache.hpp"
#include "jit/nvrtc.hpp"
#include "json_output.hpp"
#include "table.hpp"
#include "terminal.hpp"

namespace tandem::cli {
namespace {

// A thing that is there, or the sentence that says why it is not.
struct Finding {
  bool there = false;
  std::string text;
};

struct BackendFinding : Finding {
  std::string name;
};

struct Findings {
  std::string cpu_name, cpu_features;
  unsigned threads = 0;
  Finding driver, nvrtc;
  std::string nvrtc_path, nvrtc_version;
  int driver_version = 0;
  std::vector<cuda::DeviceProperties> devices;
  std::string cache_folder;
  bool cache_writable = false;
  std::size_t cache_entries = 0;
  std::uintmax_t cache_bytes = 0;
  std::vector<jit::KernelCache::Pack> packs;
  std::vector<BackendFinding> backends;

  bool has(std::string_view backend) const {
    for (const BackendFinding& finding : backends)
      if (finding.name == backend) return finding.there;
    return false;
  }
};

std::string version_text(int version) { return fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10); }

std::string read_cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (const std::size_t colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return "unknown";
}

std::string read_cpu_features() {
  std::vector<std::string> features;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) features.emplace_back("AVX2");
  if (__builtin_cpu_supports("fma")) features.emplace_back("FMA");
  if (__builtin_cpu_supports("avx512f")) features.emplace_back("AVX-512F");
  if (__builtin_cpu_supports("avx512bw")) features.emplace_back("AVX-512BW");
#elif defined(__aarch64__)
  features.emplace_back("NEON");
#endif
  return features.empty() ? "none that matter" : fmt::format("{}", fmt::join(features, ", "));
}

bool folder_writable(std::filesystem::path folder) {
  std::error_code error;
  if (folder.empty()) return false;
  while (!std::filesystem::exists(folder, error) && folder.has_parent_path() && folder != folder.parent_path()) folder = folder.parent_path();
  return ::access(folder.c_str(), W_OK | X_OK) == 0;
}

void look_at_devices(Findings& found) {
  const auto driver = cuda::driver();
  if (!driver.ok()) {
    found.driver.text = driver.status().message();
    return;
  }
  driver.value()->driver_get_version(&found.driver_version);
  found.driver = {true, version_text(found.driver_version)};
  const auto count = cuda::device_count();
  if (!count.ok()) {
    found.driver = {false, count.status().message()};
    return;
  }
  for (int i = 0; i < count.value(); ++i)
    if (auto device = cuda::device_properties(i); device.ok()) found.devices.push_back(std::move(device).value());
}

void look_at_compiler(Findings& found, const std::string& cache_dir) {
  if (const auto nvrtc = jit::nvrtc(); nvrtc.ok()) {
    found.nvrtc_path = nvrtc.value()->path;
    found.nvrtc_version = nvrtc.value()->version();
    found.nvrtc = {true, fmt::format("{}, {}", found.nvrtc_version, found.nvrtc_path)};
  } else {
    found.nvrtc.text = nvrtc.status().message();
  }
  const jit::KernelCache cache(cache_dir);
  found.cache_folder = cache.folder().string();
  found.cache_writable = folder_writable(cache.folder());
  for (const auto& entry : cache.entries()) {
    ++found.cache_entries;
    found.cache_bytes += entry.bytes;
  }
  found.packs = cache.packs();
}

void look_at_backends(Findings& found, const std::string& cache_dir) {
  for (const char* name : {"hopper", "cpu", "model"}) {
    BackendFinding finding;
    finding.name = name;
    Status status = finding.name == "model" ? load_model() : Status();
    if (status.ok()) {
      const auto context = Context::create({.backend = name, .cache_dir = cache_dir});
      finding.there = context.ok();
      finding.text = context.ok() ? "ready" : context.status().message();
    } else {
      finding.text = status.message();
    }
    found.backends.push_back(std::move(finding));
  }
}

// What will be used, and what to do for more.
std::string conclusion(const Findings& found) {
  const bool kernels = found.nvrtc.there || !found.packs.empty();
  if (found.has("hopper") && kernels && (found.cache_writable || !found.packs.empty()))
    return fmt::format("tandem will run its own kernels on {}; nothing is missing.", found.devices.empty() ? "the GPU" : found.devices.front().name);
  if (found.has("hopper") && kernels)
    return "tandem will run its own kernels on the GPU, but compiles them anew in every process: set TANDEM_CACHE_DIR to a folder that can be written.";
  if (found.has("hopper"))
    return "the GPU is usable, but there is no compiler and no pack for its kernels: install the pip package nvidia-cuda-nvrtc, or set TANDEM_AOT_DIR to a "
           "folder that `tandem compile --shipped --output` has written.";
  const std::string cpu = fmt::format("tandem will run on the CPU with {} threads", found.threads);
  if (!found.driver.there) return fmt::format("{}; the Hopper kernels need an H100, H200, H800 or H20 and its driver ({}).", cpu, found.driver.text);
  return cpu + "; the driver works, but device 0 is no Hopper GPU that can be used (see the backend's line above).";
}

Json to_json(const Findings& found) {
  Json json{{"command", "doctor"}, {"version", tandem_version()}, {"sources_digest", jit::sources_digest()}};
  json["cpu"] = {{"name", found.cpu_name}, {"features", found.cpu_features}, {"threads", found.threads}};
  json["driver"] = {{"available", found.driver.there}, {"text", found.driver.text}, {"version", found.driver_version}};
  json["devices"] = Json::array();
  for (const auto& device : found.devices)
    json["devices"].push_back({{"ordinal", device.ordinal},
                               {"name", device.name},
                               {"compute_capability", fmt::format("{}.{}", device.compute_major, device.compute_minor)},
                               {"multiprocessors", device.multiprocessors},
                               {"memory_bytes", device.memory_bytes},
                               {"l2_bytes", device.l2_bytes}});
  json["nvrtc"] = {{"available", found.nvrtc.there}, {"version", found.nvrtc_version}, {"path", found.nvrtc_path}, {"text", found.nvrtc.text}};
  json["cache"] = {{"folder", found.cache_folder}, {"writable", found.cache_writable}, {"entries", found.cache_entries}, {"bytes", found.cache_bytes}};
  json["packs"] = Json::array();
  for (const auto& pack : found.packs) json["packs"].push_back({{"folder", pack.folder.string()}, {"nvrtc", pack.nvrtc_version}});
  json["backends"] = Json::array();
  for (const auto& backend : found.backends) json["backends"].push_back({{"name", backend.name}, {"available", backend.there}, {"text", backend.text}});
  json["conclusion"] = conclusion(found);
  return json;
}

std::string mark(bool there, const std::string& text) { return paint(there ? Ink::good : Ink::warn, there ? "ok" : "--") + "  " + text; }

void print(const Findings& found) {
  Facts facts;
  facts.add("tandem", tandem_version());
  facts.add("cpu", fmt::format("{}, {} threads, {}", found.cpu_name, found.threads, found.cpu_features));
  facts.add("driver", mark(found.driver.there, found.driver.text));
  for (const auto& device : found.devices)
    facts.add(fmt::format("device {}", device.ordinal),
              fmt::format("{}, compute capability {}.{}, {} multiprocessors, {:.0f} GB, L2 {:.0f} MB", device.name, device.compute_major, device.compute_minor,
                          device.multiprocessors, static_cast<double>(device.memory_bytes) / 1e9, static_cast<double>(device.l2_bytes) / 1e6));
  facts.add("NVRTC", mark(found.nvrtc.there, found.nvrtc.text));
  if (found.cache_folder.empty())
    facts.add("cache", mark(false, "no folder: neither TANDEM_CACHE_DIR nor XDG_CACHE_HOME nor HOME is set"));
  else
    facts.add("cache",
              mark(found.cache_writable, fmt::format("{}{}, {} kernels, {:.1f} MB", found.cache_folder, found.cache_writable ? "" : " cannot be written",
                                                     found.cache_entries, static_cast<double>(found.cache_bytes) / 1e6)));
  for (const auto& pack : found.packs) facts.add("pack", fmt::format("{} (NVRTC {})", pack.folder.string(), pack.nvrtc_version));
  for (const auto& backend : found.backends) facts.add("backend " + backend.name, mark(backend.there, backend.text));
  facts.print();
  print_line("\n" + conclusion(found));
}

}  // namespace

void add_doctor(CLI::App& app, int& /*exit_code*/) {
  CLI::App* command = app.add_subcommand("doctor", "What this machine has and what will be used");
  struct Options {
    std::string cache_dir;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  command->add_option("--cache-dir", options->cache_dir, "cache folder; default: TANDEM_CACHE_DIR, else XDG_CACHE_HOME/tandem, else ~/.cache/tandem");
  command->add_flag("--json", options->json, "output for machines");
  command->callback([options] {
    Findings found;
    found.cpu_name = read_cpu_name();
    found.cpu_features = read_cpu_features();
    found.threads = std::max(1u, std::thread::hardware_concurrency());
    look_at_devices(found);
    look_at_compiler(found, options->cache_dir);
    look_at_backends(found, options->cache_dir);
    if (options->json)
      print_json(to_json(found));
    else
      print(found);
  });
}

}  // namespace tandem::cli
