#include "machine/source.hpp"

#include <cxxabi.h>
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#ifdef TANDEM_HAVE_LIBBACKTRACE
#include <backtrace.h>
#endif

namespace tandem::model {
namespace {

constexpr std::size_t kFrames = 5;

// The last two components: enough to find the file, the same on every machine.
std::string_view short_path(std::string_view path) {
  const auto last = path.rfind('/');
  if (last == std::string_view::npos) return path;
  const auto before = path.rfind('/', last - 1);
  return before == std::string_view::npos ? path : path.substr(before + 1);
}

// `tandem::attention::Consumer<...>::step<true>(...)` becomes `step`.
std::string short_function(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(abi::__cxa_demangle(mangled, nullptr, nullptr, &status), std::free);
  std::string_view name = status == 0 ? demangled.get() : mangled;
  // Cut parameters and template arguments, which nest; then the scopes.
  std::string flat;
  int depth = 0;
  for (const char c : name) {
    if (c == '(' && depth == 0) break;
    if (c == '<' || c == '(' || c == '{') ++depth;
    if (depth == 0) flat += c;
    if (c == '>' || c == ')' || c == '}') --depth;
  }
  const auto scope = flat.rfind("::");
  if (scope != std::string::npos) flat.erase(0, scope + 2);
  const auto space = flat.rfind(' ');
  if (space != std::string::npos) flat.erase(0, space + 1);
  return flat.empty() ? std::string("lambda") : flat;
}

#ifdef TANDEM_HAVE_LIBBACKTRACE

using Frames = std::vector<std::string>;

int add_frame(void* data, std::uintptr_t, const char* file, int line, const char* function) {
  auto& frames = *static_cast<Frames*>(data);
  if (file == nullptr) return 0;
  const std::string_view path = short_path(file);
  if (path.substr(0, 4) == "ptx/" || frames.size() >= kFrames) return 0;
  frames.push_back(fmt::format("{}:{} {}", path, line, function == nullptr ? "?" : short_function(function)));
  return 0;
}

void ignore_error(void*, const char*, int) {}

backtrace_state* state() {
  static backtrace_state* const instance = backtrace_create_state(nullptr, 1, ignore_error, nullptr);
  return instance;
}

#endif

}  // namespace

std::string describe_source(const void* return_address) {
  if (return_address == nullptr) return {};
  const auto call = reinterpret_cast<std::uintptr_t>(return_address) - 1;  // inside the call instruction
#ifdef TANDEM_HAVE_LIBBACKTRACE
  static std::mutex mutex;  // libbacktrace reads debug information lazily
  const std::scoped_lock lock(mutex);
  Frames frames;
  backtrace_pcinfo(state(), call, add_frame, ignore_error, &frames);
  if (!frames.empty()) return fmt::format("{}", fmt::join(frames, " < "));
#endif
  return fmt::format("address {:#x}", call);
}

}  // namespace tandem::model
