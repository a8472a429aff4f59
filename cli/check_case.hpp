// One case of `tandem check`: a line of text that says all of it, so that a failure can be run again anywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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

struct CheckCase {
  std::int64_t batch = 1, seqlen_q = 128, seqlen_k = 128, heads = 2, heads_kv = 2, head_dim = 64, head_dim_v = 64;
  DataType dtype = DataType::bf16;
  bool causal = false;
  Placement layout = Placement::bshd;
  Values values = Values::normal;
  std::optional<float> scale;  // absent: 1/sqrt(head_dim)
  std::uint64_t seed = 1;

  // "batch=1,seqlen_q=128,..."; parse takes what text gives, and needs only the fields that differ from these defaults.
  std::string text() const;
  static CheckCase parse(const std::string& text);

  // Multiplications of the whole product.
  double work() const;
};

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
