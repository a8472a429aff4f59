// The host's side of the primitives: inputs, tensor maps, and the runner of the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/primitives/primitives.hpp"
#include "plan/launch.hpp"

namespace tandem::primitives {

enum class Kernel : int { wgmma_fp16, wgmma_bf16, moves, arithmetic, multicast, count };

const char* name_of(Kernel kernel);
int out_words(Kernel kernel);
// Bytes of dynamic shared memory, and blocks of its one cluster.
int shared_bytes(Kernel kernel);
int blocks_of(Kernel kernel);

// 16-bit tensors by their bits, and words.
struct Inputs {
  std::vector<std::uint16_t> a, b_k, b_n;  // small integers in the type of the kernel: every sum is exact
  std::vector<std::uint16_t> odd;
  std::vector<std::uint32_t> floats;
};
Inputs make_inputs(Kernel kernel);

// The value of an element of A and B: what `a`, `b_k` and `b_n` encode.
int value_a(int m, int k);
int value_b(int k, int n);

std::size_t odd_elements();

// Tensor maps of a launch whose tensors lie at these addresses, in the order of Params.
struct Maps {
  TensorMapRequest a, b_k, b_n, b_16, b_32, odd, flat, stored;
  TensorMapRequest narrow[kNarrowBoxCount];
};
Maps make_maps(Kernel kernel, const void* a, const void* b_k, const void* b_n, const void* odd, void* stored);

struct Outputs {
  std::vector<std::uint32_t> out;
  std::vector<std::uint16_t> stored;  // the tensor that stores went to, 0xffff where nothing did
};

Outputs run_in_model(Kernel kernel, const Inputs& inputs, std::uint64_t seed);

}  // namespace tandem::primitives
