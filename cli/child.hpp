// Work in child processes: each is measured alone, and what it opens stays out of this one.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tandem::cli {

struct ChildResult {
  bool finished = false;  // it returned; else `output` says how it ended
  std::string output;
  double peak_mb = 0;      // most memory that it held at a time
  double cpu_seconds = 0;  // of all its threads: what it would take on an idle machine
};

// Runs the works, at most `jobs` at a time, each in a process of its own; `report` gets each result as it comes. Works run before any thread
// or library of this process could confuse them: call it first.
void run_children(const std::vector<std::function<std::string()>>& works, std::size_t jobs,
                  const std::function<void(std::size_t index, const ChildResult& result)>& report);

ChildResult run_child(const std::function<std::string()>& work);

}  // namespace tandem::cli
