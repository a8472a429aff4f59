// The options of a call beside its tensors: masks, lengths of ragged batches, and what is asked of the schedule. `run`, `check`, `explain` and
// `compile` share them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mask.hpp"

namespace CLI {
class App;
}

namespace tandem::cli {

using Lengths = std::vector<std::int32_t>;

struct CallOptions {
  bool causal = false;
  std::optional<Mask> window;  // its two sides only
  std::int64_t attention_chunk = 0;
  float softcap = 0;
  std::optional<std::vector<float>> sinks;                            // one for all heads, or one a head
  std::optional<Lengths> seqlens_q, seqlens_k, seqused_q, seqused_k;  // of sequences
  int sm_margin = 0;
  bool batch_invariant = false;

  // The object must stay where it is until the command line is parsed.
  void add_to(CLI::App& app, const std::string& group = "Options");

  Mask mask() const;
};

// "3,5,7", or the numbers of a one-dimensional .npy file (int32 or int64; for sinks floating point too). `name` is the option, for sentences.
Lengths parse_lengths(const std::string& name, const std::string& text, char separator = ',');
std::vector<float> parse_sinks(const std::string& name, const std::string& text, char separator = ',');
struct FileTensor;
// The numbers of a file's tensor as lengths.
Lengths lengths_of(const std::string& label, const FileTensor& tensor);
// "LEFT,RIGHT".
Mask parse_window(const std::string& name, const std::string& text, char separator = ',');

// {3, 5, 7} as {0, 3, 8, 15}. Fails where the sum leaves 32 bits.
Lengths cumulated(const std::string& name, const Lengths& lengths);

// "3,5,7"; of long lists the first and how many there are.
std::string lengths_text(const Lengths& lengths);

// "causal, window 128 to the left, softcap 30": what is there, "none" if nothing is.
std::string mask_text(const Mask& mask, float softcap, bool sinks);

}  // namespace tandem::cli
