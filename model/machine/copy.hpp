// The Tensor Memory Accelerator: asynchronous copies of boxes between a tensor and the shared memory of a block.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "machine/tensor_map.hpp"

namespace tandem::model {

class Machine;
struct Block;
struct Thread;

// One box to or from one block. A multicast is a copy for each block.
struct Copy {
  bool load = true;
  Block* block = nullptr;
  Thread* issuer = nullptr;
  DecodedMap map;
  const TensorMap* map_address = nullptr;
  std::array<int, kMaxRank> coordinate{};
  std::uint32_t offset = 0;   // in shared memory
  std::uint32_t barrier = 0;  // loads: offset of the barrier
  std::uint32_t phase = 0;    // loads: the phase that the bytes are meant for
  std::uint32_t next_row = 0;
  std::uint32_t rows_a_step = 0;
  bool inside = false;                // loads: some row of those before next_row lies in the tensor, at least partly
  std::size_t group = 0;              // stores: of the issuer
  std::vector<unsigned char> staged;  // stores: what was read, before it is written
  double due = 0;                     // of its next step, in a launch that is timed
};

// What a load writes in shared memory, as (offset, bytes): the whole of it at once where its rows fill the swizzle.
void for_pieces_written(const Copy& copy, const std::function<void(std::uint32_t, std::uint32_t)>& visit);

// The pieces of the box that lie inside the tensor, as (offset in shared memory, bytes). The rest of a store is never read.
void for_pieces_inside(const Copy& copy, const std::function<void(std::uint32_t, std::uint32_t)>& visit);

// Takes one step, some rows of the box. True when the copy is done.
bool step(Machine& machine, Copy& copy);

}  // namespace tandem::model
