#include "common/describe.hpp"

#include <fmt/format.h>

namespace tandem {

std::string describe(const ForwardProblem& problem) {
  std::string text =
      fmt::format("{} batch {} seqlen_q {} seqlen_k {} heads {}/{} head_dim {}/{} {}", name_of(problem.type), problem.batch, problem.seqlen_q, problem.seqlen_k,
                  problem.num_heads, problem.num_heads_kv, problem.head_dim, problem.head_dim_v, problem.causal ? "causal" : "full");
  if (problem.packed_q) text += fmt::format(" cu_seqlens_q max_seqlen_q {}", problem.longest_q);
  if (problem.packed_k) text += fmt::format(" cu_seqlens_k max_seqlen_k {}", problem.longest_k);
  if (problem.used_q) text += " seqused_q";
  if (problem.used_k) text += " seqused_k";
  if (problem.window_left >= 0 || problem.window_right >= 0) text += fmt::format(" window {},{}", problem.window_left, problem.window_right);
  if (problem.attention_chunk > 0) text += fmt::format(" attention_chunk {}", problem.attention_chunk);
  if (problem.softcap) text += " softcap";
  if (problem.sinks) text += " sinks";
  if (problem.sm_margin > 0) text += fmt::format(" sm_margin {}", problem.sm_margin);
  if (problem.batch_invariant) text += " batch_invariant";
  return text;
}

}  // namespace tandem
