// SHA-256 as lower-case hexadecimal.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace tandem::jit {

// Of the parts, each preceded by its length: no two lists of parts run together.
std::string sha256(std::initializer_list<std::string_view> parts);

// Of every embedded kernel source, by path and text. Computed once.
const std::string& sources_digest();

}  // namespace tandem::jit
