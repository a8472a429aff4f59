// The kernel sources, carried in the library as text.
#pragma once

#include <span>
#include <string_view>

namespace tandem {

struct EmbeddedSource {
  const char* path;  // as the sources include it, relative to kernels/
  const char* text;
};

std::span<const EmbeddedSource> embedded_sources();

}  // namespace tandem
