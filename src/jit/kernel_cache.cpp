#include "jit/kernel_cache.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "jit/digest.hpp"
#include "jit/own_folder.hpp"

namespace tandem::jit {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSchema = "tandem-kernel-2";  // change it when the file format or the meaning of a key changes
constexpr std::string_view kSuffix = ".tk";
constexpr std::string_view kPackLabel = "nvrtc-version";  // file in a pack: the NVRTC version that made its entries

// An entry: a line with the schema, a line with the digest of its key and of the rest, a line of JSON, the cubin.
std::string serialize(std::string_view key, const CompiledKernel& kernel) {
  const nlohmann::json about = {{"registers", kernel.report.registers},
                                {"spill_bytes", kernel.report.spill_bytes},
                                {"stack_bytes", kernel.report.stack_bytes},
                                {"advisories", kernel.report.advisories}};
  const std::string body = about.dump() + "\n" + kernel.cubin;
  return std::string(kSchema) + "\n" + sha256({key, body}) + "\n" + body;
}

std::optional<CompiledKernel> deserialize(std::string_view key, std::string_view bytes) {
  const auto line = [&]() -> std::optional<std::string_view> {
    const std::size_t newline = bytes.find('\n');
    if (newline == std::string_view::npos) return std::nullopt;
    const std::string_view text = bytes.substr(0, newline);
    bytes.remove_prefix(newline + 1);
    return text;
  };
  if (line() != kSchema) return std::nullopt;
  const auto digest = line();
  if (!digest || *digest != sha256({key, bytes})) return std::nullopt;
  const auto about_text = line();
  if (!about_text) return std::nullopt;
  CompiledKernel kernel;
  try {
    const auto about = nlohmann::json::parse(*about_text);
    kernel.report.registers = about.value("registers", 0);
    kernel.report.spill_bytes = about.value("spill_bytes", 0);
    kernel.report.stack_bytes = about.value("stack_bytes", 0);
    kernel.report.advisories = about.value("advisories", std::vector<std::string>{});
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  kernel.cubin = bytes;
  return kernel;
}

std::optional<CompiledKernel> read_entry(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return deserialize(path.stem().string(), std::move(bytes).str());
}

fs::path default_folder() {
  const auto environment = [](const char* name) { return std::getenv(name) == nullptr ? std::string() : std::string(std::getenv(name)); };
  if (const std::string own = environment("TANDEM_CACHE_DIR"); !own.empty()) return own;
  if (const std::string xdg = environment("XDG_CACHE_HOME"); !xdg.empty()) return fs::path(xdg) / "tandem";
  if (const std::string home = environment("HOME"); !home.empty()) return fs::path(home) / ".cache" / "tandem";
  return {};
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }
  bool valid() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

KernelCache::KernelCache(fs::path folder, std::vector<fs::path> ahead_of_time) : folder_(folder.empty() ? default_folder() : std::move(folder)) {
  if (const char* list = std::getenv("TANDEM_AOT_DIR")) {
    std::istringstream items(list);
    for (std::string item; std::getline(items, item, ':');)
      if (!item.empty()) ahead_of_time.emplace_back(item);
  }
  if (const fs::path own = own_folder(); !own.empty()) ahead_of_time.push_back(own / "tandem" / "kernels");
  for (fs::path& place : ahead_of_time) {
    std::ifstream label(place / kPackLabel);
    if (std::string version; label >> version) packs_.push_back({std::move(place), std::move(version)});
  }
}

std::string KernelCache::key(std::string_view source, std::string_view nvrtc_version) {
  std::string options;
  for (const char* option : compile_options()) options += std::string(option) + "\n";
  return sha256({kSchema, sources_digest(), source, options, kArchitecture, nvrtc_version});
}

std::optional<CompiledKernel> KernelCache::find(std::string_view source, std::string_view nvrtc_version) const {
  for (const Pack& pack : packs_)
    if (auto kernel = read_entry(pack.folder / (key(source, pack.nvrtc_version) + std::string(kSuffix)))) return kernel;
  if (folder_.empty()) return std::nullopt;
  return read_entry(folder_ / (key(source, nvrtc_version) + std::string(kSuffix)));
}

Result<CompiledKernel> KernelCache::find_or_make(std::string_view source, std::string_view nvrtc_version,
                                                 const std::function<Result<CompiledKernel>()>& make) const {
  if (auto kernel = find(source, nvrtc_version)) return *std::move(kernel);
  const std::string name = key(source, nvrtc_version);
  std::error_code error;
  if (!folder_.empty()) fs::create_directories(folder_, error);
  const FileDescriptor lock(folder_.empty() ? -1 : ::open((folder_ / (name + ".lock")).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (lock.valid()) {
    while (::flock(lock.get(), LOCK_EX) != 0 && errno == EINTR) {
    }
    if (auto kernel = find(source, nvrtc_version)) return *std::move(kernel);  // another process made it meanwhile
  }
  auto made = make();
  if (made.ok()) store(name, made.value());
  return made;
}

bool KernelCache::label_pack(std::string_view nvrtc_version) const {
  std::ofstream label(folder_ / kPackLabel);
  label << nvrtc_version << '\n';
  return label.good();
}

bool KernelCache::store(const std::string& key, const CompiledKernel& kernel) const {
  if (folder_.empty()) return false;
  std::error_code error;
  fs::create_directories(folder_, error);
  static std::atomic<unsigned> counter{0};
  const fs::path temporary = folder_ / (key + ".tmp." + std::to_string(::getpid()) + "." + std::to_string(counter++));
  {
    const FileDescriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!file.valid()) return false;
    if (!write_all(file.get(), serialize(key, kernel)) || ::fsync(file.get()) != 0) {
      fs::remove(temporary, error);
      return false;
    }
  }
  fs::rename(temporary, folder_ / (key + std::string(kSuffix)), error);
  if (!error) return true;
  fs::remove(temporary, error);
  return false;
}

std::vector<KernelCache::Entry> KernelCache::entries() const {
  std::vector<Entry> found;
  std::error_code error;
  for (const auto& file : fs::directory_iterator(folder_, error))
    if (file.path().extension() == kSuffix) found.push_back({file.path(), file.file_size(error), read_entry(file.path()).has_value()});
  return found;
}

std::size_t KernelCache::clear() const {
  std::size_t removed = 0;
  std::error_code error;
  std::vector<fs::path> files;
  for (const auto& file : fs::directory_iterator(folder_, error)) files.push_back(file.path());
  for (const fs::path& file : files) {
    const std::string name = file.filename().string();
    const bool entry = file.extension() == kSuffix;
    if (!entry && file.extension() != ".lock" && name.find(".tmp.") == std::string::npos) continue;
    if (fs::remove(file, error) && entry) ++removed;
  }
  return removed;
}

}  // namespace tandem::jit
