// A problem in a line of text.
#pragma once

#include <string>

#include "common/tensor.hpp"

namespace tandem {

// "bf16 batch 2 seqlen_q 5 seqlen_k 7 heads 4/2 head_dim 64/64 causal": all that a plan depends on, and what does nothing is left out.
std::string describe(const ForwardProblem& problem);

}  // namespace tandem
