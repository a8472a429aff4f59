// Attention on host tensors by any backend: prepared once, with its tensors where the backend reaches them, then run at will.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "memory.hpp"
#include "reference.hpp"
#include "tandem/tandem.hpp"

namespace tandem::cli {

// The arguments of a call without addresses of tensors: what supports and prepare read. Points into `inputs`.
ForwardArgs arguments_of(const AttentionInputs& inputs, const HostTensor& out);

class Attention {
 public:
  // Copies the inputs. `out` says how the output lies in memory, and what stands there before the first run.
  Attention(const Context& context, MemorySpace& memory, const AttentionInputs& inputs, const HostTensor& out, bool lse);

  // Queues one run.
  void run();
  MemorySpace& memory() const { return memory_; }
  const ForwardPlan& plan() const { return plan_; }

  // What the runs so far have left.
  HostTensor out() const;
  std::vector<float> lse() const;  // (batch, heads, seqlen_q); empty if not wanted

 private:
  std::unique_ptr<Buffer> upload(const HostTensor& tensor, ConstTensor& view);
  const void* upload(std::span<const std::byte> bytes);

  MemorySpace& memory_;
  HostTensor out_;  // without its storage
  std::size_t out_bytes_ = 0, lse_count_ = 0;
  ForwardPlan plan_;
  ForwardArgs args_;
  std::unique_ptr<Buffer> q_, k_, v_, out_buffer_, lse_, workspace_;
  std::vector<std::unique_ptr<Buffer>> arrays_;  // lengths and sinks
};

// Of the scores that are computed; a causal square counts half, as is customary. Multiplications and additions.
double flops_of(const AttentionInputs& inputs);

// "what was chosen" of a plan's JSON, in a line.
std::string schedule_text(std::string_view plan_json);

}  // namespace tandem::cli
