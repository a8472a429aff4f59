// What tensors are filled with.
#pragma once

#include <cstdint>
#include <string_view>

#include "support/random.hpp"
#include "support/tensor.hpp"

namespace tandem::testing {

enum class ValueKind {
  normal,    // N(0, 1)
  outliers,  // N(0, 1) + N(0, 100) * Bernoulli(0.001): the distribution that accuracy is quoted for
  wide,      // 3 N(0, 1): logits of some tens, nearly one-hot rows
  tiny,      // 1e-3 N(0, 1): nearly uniform rows
};

std::string_view name_of(ValueKind kind);

Values make_values(ValueKind kind, const Shape& shape, Random& random);

}  // namespace tandem::testing
