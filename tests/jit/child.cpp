// What the JIT tests do in other processes.
//   child key SOURCE VERSION            prints the cache key
//   child make FOLDER SOURCE LOG        find_or_make; appends a line to LOG when it has to make the entry, and takes its time about it
//   child hang FOLDER SOURCE LOG        the same, but never returns from making
//   child get FOLDER SPEC               a kernel by KernelStore; prints "compiled" or "found", or the refusal
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "jit/kernel_store.hpp"
#include "plan/spec_text.hpp"

namespace {

using tandem::Result;
using tandem::jit::CompiledKernel;
using tandem::jit::KernelCache;
using tandem::jit::KernelStore;

void append_line(const char* path) {
  const int file = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const ssize_t written = ::write(file, "made\n", 5);  // one write: lines of several processes do not mix
  if (written != 5) std::perror(path);
  ::close(file);
}

int make(const char* folder, const char* source, const char* log, bool hang) {
  const auto kernel = KernelCache(folder).find_or_make(source, "13.0", [&]() -> Result<CompiledKernel> {
    append_line(log);
    std::this_thread::sleep_for(hang ? std::chrono::hours(1) : std::chrono::milliseconds(200));
    CompiledKernel made;
    made.cubin = std::string("cubin of ") + source;
    return made;
  });
  const bool right = kernel.ok() && kernel.value().cubin == std::string("cubin of ") + source;
  return right ? 0 : 1;
}

int get(const char* folder, const char* text) {
  const auto spec = tandem::parse_spec(text, {});
  if (!spec.ok()) {
    std::printf("%s\n", spec.status().message().c_str());
    return 2;
  }
  const auto kernel = KernelStore(KernelCache(folder)).get(spec.value());
  if (!kernel.ok()) {
    std::printf("%s\n", kernel.status().message().c_str());
    return 1;
  }
  std::printf("%s\n", kernel.value().seconds > 0 ? "compiled" : "found");
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string what = count > 1 ? arguments[1] : "";
  if (what == "key" && count == 4) {
    std::printf("%s\n", KernelCache::key(arguments[2], arguments[3]).c_str());
    return 0;
  }
  if ((what == "make" || what == "hang") && count == 5) return make(arguments[2], arguments[3], arguments[4], what == "hang");
  if (what == "get" && count == 4) return get(arguments[2], arguments[3]);
  std::fprintf(stderr, "child: unknown arguments\n");
  return 2;
}
