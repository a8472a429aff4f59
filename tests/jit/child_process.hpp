// Runs tests/jit/child.cpp, or a copy of it.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tandem::testing {

class ChildProcess {
 public:
  struct Options {
    std::string program = TANDEM_JIT_CHILD;
    std::string name = "child";                                // argv[0]
    std::string folder = {};                                   // where it runs; empty: here
    std::optional<std::vector<std::string>> environment = {};  // "NAME=value"; absent: ours
  };

  explicit ChildProcess(const std::vector<std::string>& arguments) : ChildProcess(arguments, Options()) {}
  ChildProcess(const std::vector<std::string>& arguments, const Options& options) {
    std::vector<std::string> words = {options.name};
    words.insert(words.end(), arguments.begin(), arguments.end());
    const std::vector<char*> argv = pointers(words), envp = options.environment ? pointers(*options.environment) : std::vector<char*>{};
    std::array<int, 2> pipe_ends{};
    if (pipe(pipe_ends.data()) != 0) throw std::runtime_error("pipe");
    process_ = fork();
    if (process_ < 0) throw std::runtime_error("fork");
    if (process_ == 0) {
      dup2(pipe_ends[1], STDOUT_FILENO);
      close(pipe_ends[0]);
      close(pipe_ends[1]);
      if (!options.folder.empty() && chdir(options.folder.c_str()) != 0) _exit(126);
      execve(options.program.c_str(), argv.data(), options.environment ? envp.data() : environ);
      _exit(127);
    }
    close(pipe_ends[1]);
    output_ = pipe_ends[0];
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ChildProcess(ChildProcess&& other) noexcept : process_(std::exchange(other.process_, -1)), output_(std::exchange(other.output_, -1)) {}
  ~ChildProcess() {
    if (process_ > 0) kill();
    if (output_ >= 0) close(output_);
  }

  struct Outcome {
    int status = -1;     // exit status, or -1 after a signal
    std::string output;  // without its last newline
  };

  Outcome wait() {
    Outcome outcome;
    std::array<char, 4096> buffer{};
    for (ssize_t count = 0; (count = read(output_, buffer.data(), buffer.size())) > 0;) outcome.output.append(buffer.data(), static_cast<std::size_t>(count));
    if (!outcome.output.empty() && outcome.output.back() == '\n') outcome.output.pop_back();
    const int status = reap();
    if (WIFEXITED(status)) outcome.status = WEXITSTATUS(status);
    return outcome;
  }

  void kill() {
    ::kill(process_, SIGKILL);
    reap();
  }

 private:
  static std::vector<char*> pointers(const std::vector<std::string>& texts) {
    std::vector<char*> list;
    for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
    list.push_back(nullptr);
    return list;
  }

  int reap() {
    int status = 0;
    waitpid(std::exchange(process_, -1), &status, 0);
    return status;
  }

  pid_t process_ = -1;
  int output_ = -1;
};

}  // namespace tandem::testing
