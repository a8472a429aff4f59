#include "key_blocks.hpp"

#include <algorithm>

namespace tandem::cli {
namespace {

constexpr std::int64_t kWarpgroupRows = 64;

std::int64_t blocks(std::int64_t keys, std::int64_t block) { return (std::max<std::int64_t>(keys, 0) + block - 1) / block; }

}  // namespace

KeyBlocks& KeyBlocks::operator+=(const KeyBlocks& other) {
  tiles += other.tiles;
  rectangle += other.rectangle;
  visited += other.visited;
  masked += other.masked;
  return *this;
}

KeyBlocks count_key_blocks(const ForwardSpec& spec, const Mask& mask, std::int64_t seqlen_q, std::int64_t seqlen_k) {
  // As the kernel has them: both ends rise with the row, also past the last one; neither is cut to the keys from below.
  const auto first_key = [&](std::int64_t row) {
    const std::int64_t position = row + seqlen_k - seqlen_q;
    std::int64_t first = 0;
    if (mask.window_left >= 0 && mask.window_left < position) first = position - mask.window_left;
    if (mask.attention_chunk > 0 && position >= 0) first = std::max(first, position / mask.attention_chunk * mask.attention_chunk);
    return first;
  };
  const auto end_key = [&](std::int64_t row) {
    const std::int64_t position = row + seqlen_k - seqlen_q;
    std::int64_t end = seqlen_k;
    if (mask.causal) end = std::min(end, position + 1);
    if (mask.window_right >= 0 && mask.window_right < seqlen_k - position) end = std::min(end, position + mask.window_right + 1);
    if (mask.attention_chunk > 0) end = std::min(end, position < 0 ? 0 : (position / mask.attention_chunk + 1) * mask.attention_chunk);
    return end;
  };
  const std::int64_t block_m = spec.block_m(), block_n = spec.block_n;
  KeyBlocks count;
  count.tiles = blocks(seqlen_q, block_m);
  count.rectangle = count.tiles * blocks(seqlen_k, block_n);
  for (std::int64_t row = 0; row < seqlen_q; row += block_m) {
    const std::int64_t first = first_key(row) / block_n;
    const std::int64_t end = std::max(blocks(end_key(row + block_m - 1), block_n), first + 1);
    std::int64_t first_whole = first, end_whole = end;
    for (std::int64_t own = row; own < row + block_m; own += kWarpgroupRows) {
      first_whole = std::max(first_whole, blocks(first_key(own + kWarpgroupRows - 1), block_n));
      const std::int64_t end_of_first = end_key(own) - (spec.causal || spec.local ? 1 : 0);  // as in Seqlens::end_whole
      end_whole = std::min(end_whole, std::max<std::int64_t>(end_of_first, 0) / block_n);
    }
    count.visited += end - first;
    count.masked += end - first - std::max<std::int64_t>(end_whole - first_whole, 0);
  }
  return count;
}

}  // namespace tandem::cli
