#include "child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include "failure.hpp"

namespace tandem::cli {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int get() const { return value_; }

 private:
  int value_;
};

struct Child {
  std::size_t index;
  pid_t process;
  Descriptor output;
  std::string text = {};
};

void write_all(int descriptor, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(descriptor, text.data() + done, text.size() - done);
    if (written > 0)
      done += static_cast<std::size_t>(written);
    else if (errno != EINTR)
      return;
  }
}

Child start(std::size_t index, const std::function<std::string()>& work) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail("a pipe to a child process could not be made: {}", std::strerror(errno));
  Descriptor reading(ends[0]), writing(ends[1]);
  std::fflush(nullptr);  // or the child would print it again
  const pid_t process = ::fork();
  if (process < 0) fail("a child process could not be started: {}", std::strerror(errno));
  if (process == 0) {
    int code = 0;
    try {
      write_all(writing.get(), work());
    } catch (const std::exception& error) {
      write_all(writing.get(), error.what());
      code = 1;
    }
    ::_exit(code);  // nothing of the parent's is to be destroyed here
  }
  return {index, process, std::move(reading)};
}

// Reads what is there; true at the end.
bool drain(Child& child) {
  char bytes[4096];
  const ssize_t count = ::read(child.output.get(), bytes, sizeof bytes);
  if (count > 0) child.text.append(bytes, static_cast<std::size_t>(count));
  return count == 0 || (count < 0 && errno != EINTR);
}

ChildResult finish(Child& child) {
  int status = 0;
  rusage usage{};
  while (::wait4(child.process, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  ChildResult result{.output = std::move(child.text), .peak_mb = static_cast<double>(usage.ru_maxrss) * 1024 / 1e6};
  for (const timeval& time : {usage.ru_utime, usage.ru_stime})
    result.cpu_seconds += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  result.finished = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!result.finished && result.output.empty())
    result.output = WIFSIGNALED(status) ? fmt::format("the child process was ended by signal {}", WTERMSIG(status)) : "the child process failed";
  return result;
}

}  // namespace

void run_children(const std::vector<std::function<std::string()>>& works, std::size_t jobs,
                  const std::function<void(std::size_t index, const ChildResult& result)>& report) {
  std::vector<Child> running;
  std::size_t next = 0;
  while (next < works.size() || !running.empty()) {
    while (next < works.size() && running.size() < jobs) {
      running.push_back(start(next, works[next]));
      ++next;
    }
    std::vector<pollfd> waiting;
    for (const Child& child : running) waiting.push_back({child.output.get(), POLLIN, 0});
    if (::poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) fail("waiting for child processes failed: {}", std::strerror(errno));
    for (std::size_t i = running.size(); i-- > 0;) {
      if (waiting[i].revents == 0 || !drain(running[i])) continue;
      const ChildResult result = finish(running[i]);
      const std::size_t index = running[i].index;
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      report(index, result);
    }
  }
}

ChildResult run_child(const std::function<std::string()>& work) {
  ChildResult result;
  run_children({work}, 1, [&](std::size_t, const ChildResult& made) { result = made; });
  return result;
}

}  // namespace tandem::cli
