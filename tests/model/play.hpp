// Plays one forward problem in the model, as often as wanted, and judges each result by the tolerance rule.
#pragma once

#include <cstdint>
#include <optional>

#include "attention/spec.hpp"
#include "machine/launch.hpp"
#include "support/forward_case.hpp"
#include "support/reference.hpp"

namespace tandem::testing {

// Relative error of a capped score: that of the cubic, since the model's tanh.approx is exact.
inline constexpr double kTanhErrorOfModel = 0x1p-11;

class Play {
 public:
  Play(const ForwardSpec& spec, ForwardCase c);

  const ForwardCase& forward_case() const { return case_; }

  // What the model found, or a diagnosis of `wrong_result`; nothing if all is well. May be called from several threads.
  std::optional<model::Diagnosis> run(const model::KernelImage& kernel, std::uint64_t seed, model::Statistics* statistics = nullptr) const;

  // Of a persistent grid. 1: a single block works through all tiles.
  int multiprocessors = 2;

 private:
  ForwardSpec spec_;
  ForwardCase case_;
  ForwardInputs inputs_;
  ReferenceRows exact_, same_dtype_;
};

// The problem of a spec: type and mask are the spec's, and head dims too, less `missing_columns`. A ragged one has sequences up to these lengths, two more
// than `batch`.
ForwardCase case_for(const ForwardSpec& spec, std::int64_t seqlen_q, std::int64_t seqlen_k, std::int64_t batch = 1, std::int64_t num_heads = 1,
                     std::int64_t num_heads_kv = 1, int missing_columns = 0);

}  // namespace tandem::testing
