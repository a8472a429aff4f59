// Which keys a query row sees. Every mask of the contract is an interval, so the loops below it need trip counts and two comparisons.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tandem::cpu {

struct KeyRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;  // exclusive; begin == end: the row sees nothing

  bool operator==(const KeyRange&) const = default;
};

// Distances from the query's position, inclusive; negative: unbounded on that side. Causal is {-1, 0}.
struct Window {
  std::int64_t left = -1;
  std::int64_t right = -1;
};

// Bottom-right aligned: query i stands at position i + seqlen_k - seqlen_q.
constexpr KeyRange visible_keys(Window window, std::int64_t query, std::int64_t seqlen_q, std::int64_t seqlen_k) {
  const std::int64_t position = query + seqlen_k - seqlen_q;
  KeyRange keys{0, seqlen_k};
  if (window.left >= 0) keys.begin = std::clamp<std::int64_t>(position - window.left, 0, seqlen_k);
  if (window.right >= 0) keys.end = std::clamp<std::int64_t>(position + window.right + 1, 0, seqlen_k);
  keys.end = std::max(keys.begin, keys.end);
  return keys;
}

}  // namespace tandem::cpu
