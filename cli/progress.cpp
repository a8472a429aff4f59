#include "progress.hpp"

#include <fmt/format.h>

#include "terminal.hpp"

namespace tandem::cli {
namespace {

using namespace std::chrono_literals;
constexpr auto kPatience = 2s;      // what is faster needs no progress where it would stay in a log
constexpr auto kLogInterval = 10s;  // between the lines of a log
constexpr auto kFrameTime = 50ms;   // between two states of a line
constexpr const char* kEraseLine = "\r\033[K";

}  // namespace

Progress::Progress(std::string what, std::size_t total)
    : what_(std::move(what)), total_(total), terminal_(is_terminal(stderr)), next_(terminal_ ? start_ : start_ + kPatience) {}

Progress::~Progress() {
  if (shown_ && terminal_) fmt::print(stderr, "{}", kEraseLine);
}

void Progress::update(std::size_t done, std::string_view detail) {
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + (terminal_ ? Clock::duration(kFrameTime) : Clock::duration(kLogInterval));
  shown_ = true;
  const std::string count = total_ == 0 ? fmt::format("{}", done) : fmt::format("{}/{}", done, total_);
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const std::string line = fmt::format("{} {} ({:.0f} s) {}", what_, count, seconds, detail);
  if (terminal_)
    fmt::print(stderr, "{}{}", kEraseLine, line.substr(0, 120));
  else
    fmt::print(stderr, "{}\n", line);
}

}  // namespace tandem::cli
