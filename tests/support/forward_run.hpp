// Runs one forward call the way the C interface does: validate, ask, prepare, run; and looks for damage around the outputs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "support/device.hpp"
#include "support/forward_case.hpp"
#include "support/tensor.hpp"
#include "tandem/tandem.h"

namespace tandem::testing {

struct ForwardResult {
  Status status;         // of the first step that failed
  bool refused = false;  // on the host, before anything could be launched
  Values out;
  std::vector<std::uint32_t> bits;  // of out
  std::vector<float> lse;           // (batch, heads, seqlen_q), of packed sequences (1, heads, rows); empty: absent
  std::string plan;                 // what the backend says it chose

  float lse_at(const ForwardProblem& p, std::int64_t b, std::int64_t h, std::int64_t i) const {
    return lse[static_cast<std::size_t>((b * p.num_heads + h) * p.seqlen_q + i)];
  }
};

// Test failures are reported for: damaged memory, changed inputs, and a failure that is no refusal.
ForwardResult run_forward(Backend& backend, TestDevice& device, const ForwardCase& c, const ForwardInputs& inputs);

// As it stands in a case with the output at a placement of its own.
ForwardResult run_forward(Backend& backend, TestDevice& device, const ForwardCase& c, const ForwardInputs& inputs, const Placement& out);

// A call that is prepared and whose tensors are on the device, to be run many times.
class PreparedForward {
 public:
  // `inputs` must outlive this.
  PreparedForward(Backend& backend, TestDevice& device, const ForwardCase& c, const ForwardInputs& inputs, const Placement& out);

  const Status& status() const { return status_; }
  bool refused() const { return refused_; }

  // Runs and waits.
  Status run();
  // Fetches what the last run wrote, and checks what no run may have touched.
  ForwardResult result();
  // Makes the outputs poison again.
  void clear_outputs();

 private:
  // The LSE buffer, as its strides describe it.
  struct LsePlacement {
    std::int64_t stride_batch = 0, stride_head = 0, elements = 0;
  };
  static LsePlacement place_lse(const ForwardCase& c);

  tandem_forward_args arguments(bool with_addresses) const;
  Status prepare(Backend& backend);

  TestDevice& device_;
  const ForwardCase case_;
  const ForwardInputs& inputs_;
  const HostTensor out_;  // poison
  const LsePlacement lse_placement_;
  DeviceBuffer q_memory_, k_memory_, v_memory_, out_memory_, lse_memory_;
  DeviceBuffer sinks_memory_, cu_seqlens_q_memory_, cu_seqlens_k_memory_, seqused_q_memory_, seqused_k_memory_;
  std::unique_ptr<DeviceBuffer> workspace_;
  std::unique_ptr<ForwardExecutable> executable_;  // null: refused, or nothing to do
  ForwardProblem problem_;                         // as the library understood it
  ForwardCall call_;
  Status status_;
  bool refused_ = false;
};

}  // namespace tandem::testing
