// Which tensors TMA can address.
#pragma once

#include <string>

#include "common/tensor.hpp"

namespace tandem {

// Why the tensor cannot be read or written by TMA, naming it, the value and what is needed; empty if it can. A null address passes.
std::string layout_refusal(const char* name, const Tensor& tensor);

// The same for all tensors of a call.
std::string layout_refusal(const ForwardCall& call);

}  // namespace tandem
