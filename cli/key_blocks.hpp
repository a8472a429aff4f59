// What a mask does to the work of a kernel: which blocks of keys its query tiles visit, and which of those they mask.
#pragma once

#include <cstdint>
#include <vector>

#include "attention/spec.hpp"
#include "mask.hpp"

namespace tandem::cli {

// Blocks of block_n keys, added up over the query tiles of one head.
struct KeyBlocks {
  std::int64_t tiles = 0;
  std::int64_t rectangle = 0;  // all blocks of every tile
  std::int64_t visited = 0;    // at least one a tile
  std::int64_t masked = 0;     // of the visited: where the mask, or the end of the keys, is looked at score by score

  std::int64_t skipped() const { return rectangle > visited ? rectangle - visited : 0; }
  std::int64_t whole() const { return visited - masked; }
  double saved() const { return rectangle > 0 ? static_cast<double>(skipped()) / static_cast<double>(rectangle) : 0.0; }

  KeyBlocks& operator+=(const KeyBlocks& other);
};

// By the rules of kernels/attention/seqlens.cuh.
KeyBlocks count_key_blocks(const ForwardSpec& spec, const Mask& mask, std::int64_t seqlen_q, std::int64_t seqlen_k);

}  // namespace tandem::cli
