// Progress of anything long, on stderr: a line that is rewritten on a terminal; elsewhere a line now and then, once it has taken 2 s.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace tandem::cli {

class Progress {
 public:
  // `total` 0: unknown.
  Progress(std::string what, std::size_t total);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  // `done` of the total are finished; `detail` is what is being worked on.
  void update(std::size_t done, std::string_view detail);

 private:
  using Clock = std::chrono::steady_clock;

  std::string what_;
  std::size_t total_;
  bool terminal_;
  bool shown_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_;
};

}  // namespace tandem::cli
