// Backends by name.
#include <fmt/format.h>

#include <map>
#include <mutex>
#include <string>

#include "backends/backend.hpp"

namespace tandem {
namespace {

class Registry {
 public:
  static Registry& instance() {
    static Registry registry;  // made at first use: others register while they are being loaded
    return registry;
  }

  void add(std::string_view name, BackendFactory factory) {
    const std::lock_guard lock(mutex_);
    factories_.insert_or_assign(std::string(name), factory);
  }

  BackendFactory find(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    const auto found = factories_.find(name);
    return found == factories_.end() ? nullptr : found->second;
  }

  std::string names() const {
    const std::lock_guard lock(mutex_);
    std::string text = "\"auto\"";
    for (const auto& [name, factory] : factories_) text += fmt::format(", \"{}\"", name);
    return text;
  }

 private:
  Registry() : factories_{{"cpu", make_cpu_backend}, {"hopper", make_hopper_backend}} {}

  mutable std::mutex mutex_;
  std::map<std::string, BackendFactory, std::less<>> factories_;
};

}  // namespace

void register_backend(std::string_view name, BackendFactory factory) { Registry::instance().add(name, factory); }

// The factory runs outside the lock: making a backend may take long, and may register another.
Result<std::unique_ptr<Backend>> make_backend(std::string_view name, const BackendOptions& options) {
  const Registry& registry = Registry::instance();
  if (name == "auto") {
    Result<std::unique_ptr<Backend>> hopper = registry.find("hopper")(options);
    return hopper.ok() ? std::move(hopper) : registry.find("cpu")(options);
  }
  if (const BackendFactory factory = registry.find(name)) return factory(options);
  return Status(StatusCode::invalid_argument, fmt::format("backend is \"{}\"; accepted are {}", name, registry.names()));
}

}  // namespace tandem
