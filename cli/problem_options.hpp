// A problem by flags, for the commands that need no tensors.
#pragma once

#include <string>
#include <vector>

#include "call_options.hpp"
#include "common/tensor.hpp"
#include "plan/planner.hpp"

namespace CLI {
class App;
}

namespace tandem::cli {

class ProblemOptions {
 public:
  void add_to(CLI::App& app);
  // Whether one of the flags is on the command line.
  bool given() const;
  // Fails with a sentence where the flags contradict each other.
  ForwardProblem problem() const;
  DeviceShape device() const;
  const CallOptions& call() const { return call_; }

  // Lengths of a sequence along both sides. Of a batch of equal ones: once.
  struct Sequence {
    std::int64_t seqlen_q = 0, seqlen_k = 0;
  };
  std::vector<Sequence> sequences() const;

 private:
  std::int64_t sequence_count() const;

  const CLI::App* app_ = nullptr;
  std::int64_t batch_ = 1, seqlen_q_ = 4096, seqlen_k_ = -1, heads_ = 16, heads_kv_ = -1, head_dim_ = 128, head_dim_v_ = -1;  // -1: as the other
  CallOptions call_;
  std::string dtype_ = "bf16";
  int multiprocessors_ = 132;
};

// "bf16, batch 1, 16 heads (4 of keys), 4096 queries, 4096 keys, head dim 128, causal"; of packed lengths "3 sequences, 900 queries (packed), ..."
std::string describe(const ForwardProblem& problem, float softcap = 0);

}  // namespace tandem::cli
