// A spec as text: canonical for the cache key and the kernel source, short for people, and back.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "attention/spec.hpp"
#include "nlohmann/json_fwd.hpp"
#include "tandem/result.hpp"

namespace tandem {

// Every field in order: "dtype=bf16,head_dim=128,...".
std::string to_text(const ForwardSpec& spec);

// As C++: "tandem::ForwardSpec{.dtype = tandem::DType::bf16, ...}".
std::string to_initializer(const ForwardSpec& spec);

// "forward_bf16_d128_causal_m128_n128_...": what tells shipped kernels apart, readable.
std::string name_of(const ForwardSpec& spec);

nlohmann::json to_json(const ForwardSpec& spec);

// Sets the named fields of `base`: "block_n=144,turns=none". Refuses unknown fields and values, and specs that break a rule of the budget.
Result<ForwardSpec> parse_spec(std::string_view text, const ForwardSpec& base);

std::size_t hash_of(const ForwardSpec& spec);

}  // namespace tandem
