// What tensors are filled with: numbers that follow from a seed, the same on every machine and for every number of threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "host_tensor.hpp"

namespace tandem::cli {

enum class Values {
  normal,    // N(0, 1)
  outliers,  // N(0, 1), and one in a thousand has N(0, 100) added: the distribution of the FP8 literature
  large,     // N(0, 1) times 30: logits in the hundreds
  equal,     // all 1: every weight is the same
};

std::string_view name_of(Values values);
Values parse_values(const std::string& name);

// Fills the elements of the tensor, and nothing between them. Random access: an element depends on the seed and its indices alone.
void fill(HostTensor& tensor, Values values, std::uint64_t seed);

}  // namespace tandem::cli
