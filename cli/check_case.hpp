// One case of `tandem check`: a line of text that says all of it, so that a failure can be run again anywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "call_options.hpp"
#include "reference.hpp"
#include "values.hpp"

namespace tandem::cli {

// How tensors lie in memory. What lies between their elements is NaN: no kernel may let it matter, and none may write there.
enum class Placement {
  bshd,      // no gaps
  bhsd,      // no gaps, heads outermost
  padded,    // gaps after rows and batch entries, and before the first element
  slice,     // the first part of a longer cache
  expanded,  // all batch entries of K and V share one, by a stride of 0
};

// Ragged: batch counts the sequences. Packed: seqlen_q (seqlen_k) counts the rows of the tensor, which may be more or fewer than the lengths
// add up to.
struct CheckCase {
  std::int64_t batch = 1, seqlen_q = 128, seqlen_k = 128, heads = 2, heads_kv = 2, head_dim = 64, head_dim_v = 64;
  DataType dtype = DataType::bf16;
  Mask mask;
  float softcap = 0;
  bool sinks = false;  // their values follow from the seed
  std::optional<Lengths> seqlens_q, seqlens_k, seqused_q, seqused_k;
  int sm_margin = 0;
  bool batch_invariant = false;
  Placement layout = Placement::bshd;
  Values values = Values::normal;
  std::optional<float> scale;  // absent: 1/sqrt(head_dim)
  std::uint64_t seed = 1;

  // "batch=1,seqlen_q=128,..."; parse takes what text gives, and needs only the fields that differ from these defaults.
  std::string text() const;
  static CheckCase parse(const std::string& text);
  // Options of the command line are laid over the case: what they do not name stays.
  void apply(const CallOptions& options);

  // Multiplications of the whole product.
  double work() const;

 private:
  void settle_batch(bool given);
};

// Rows of Q, K and V that no sequence has are NaN.
AttentionInputs make_inputs(const CheckCase& c);
// NaN in every place.
HostTensor make_output(const CheckCase& c);
// Whether the bytes between the elements of `out` are as make_output left them.
bool gaps_untouched(const HostTensor& out);

// Where kernels go wrong: empty and short lengths, tile borders, rows without keys, ratios of heads, odd widths, extreme logits.
std::vector<CheckCase> fixed_cases();

// `index` and `seed` decide all; lengths are cut until the work is at most `most_work`. dtypes: those to draw from.
CheckCase random_case(std::uint64_t seed, std::uint64_t index, const std::vector<DataType>& dtypes, double most_work);

}  // namespace tandem::cli
