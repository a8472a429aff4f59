// Which keys a query sees, as the command line's own reference understands it (contract 2). Shares no code with the library on purpose.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tandem::cli {

// Keys [first, end); empty where end <= first.
struct KeyRange {
  std::int64_t first = 0, end = 0;

  std::int64_t count() const { return std::max<std::int64_t>(end - first, 0); }
};

struct Mask {
  bool causal = false;
  std::int64_t window_left = -1, window_right = -1;  // negative: open
  std::int64_t attention_chunk = 0;                  // 0: none

  bool windowed() const { return window_left >= 0 || window_right >= 0; }
  bool any() const { return causal || windowed() || attention_chunk > 0; }

  // Query `row` of a sequence stands at position row + seqlen_k - seqlen_q: the last query at the last key.
  KeyRange visible(std::int64_t row, std::int64_t seqlen_q, std::int64_t seqlen_k) const {
    const std::int64_t position = row + seqlen_k - seqlen_q;
    KeyRange keys{0, seqlen_k};
    // Compared by differences: a window may be as wide as 64 bits say.
    if (causal) keys.end = std::min(keys.end, position + 1);
    if (window_left >= 0 && window_left < position) keys.first = position - window_left;
    if (window_right >= 0 && window_right < seqlen_k - position) keys.end = std::min(keys.end, position + window_right + 1);
    if (attention_chunk > 0) {
      const std::int64_t chunk = position >= 0 ? position / attention_chunk : -((-position - 1) / attention_chunk) - 1;  // rounded down
      keys.first = std::max(keys.first, chunk * attention_chunk);
      if ((chunk + 1) * attention_chunk < keys.end) keys.end = (chunk + 1) * attention_chunk;
    }
    keys.first = std::clamp<std::int64_t>(keys.first, 0, seqlen_k);
    keys.end = std::clamp<std::int64_t>(keys.end, 0, seqlen_k);
    if (keys.end < keys.first) keys.end = keys.first;
    return keys;
  }
};

}  // namespace tandem::cli
