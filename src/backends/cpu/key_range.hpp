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

// `left` and `right` are distances from the query's position, inclusive; negative: unbounded on that side. Causal is a `right` of 0.
struct Mask {
  std::int64_t left = -1;
  std::int64_t right = -1;
  std::int64_t chunk = 0;  // keys of the query's own chunk of so many positions; 0: all
};

// Bottom-right aligned: query i stands at position i + seqlen_k - seqlen_q. Both ends rise with the query.
constexpr KeyRange visible_keys(const Mask& mask, std::int64_t query, std::int64_t seqlen_q, std::int64_t seqlen_k) {
  const std::int64_t position = query + seqlen_k - seqlen_q;
  KeyRange keys{0, seqlen_k};
  if (mask.left >= 0) keys.begin = std::max(keys.begin, position - mask.left);
  if (mask.right >= 0) keys.end = std::min(keys.end, position + mask.right + 1);
  if (mask.chunk > 0) {
    // Chunks of negative positions hold no key: -1 stands for all of them.
    const std::int64_t chunk = position < 0 ? -1 : position / mask.chunk;
    keys.begin = std::max(keys.begin, chunk * mask.chunk);
    keys.end = std::min(keys.end, (chunk + 1) * mask.chunk);
  }
  keys.begin = std::min(keys.begin, seqlen_k);
  keys.end = std::max(keys.begin, keys.end);
  return keys;
}

}  // namespace tandem::cpu
