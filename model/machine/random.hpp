// The one source of chance in a launch: everything that the model chooses comes out of one 64-bit seed.
#pragma once

#include <cstdint>

namespace tandem::model {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  // splitmix64: passes the usual tests, and a state of one word makes a launch cheap to copy and to replay.
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }

  // Uniform in [0, bound), up to a bias of bound / 2^32.
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(((next() >> 32) * bound) >> 32); }

  // True with probability `weight` / 256.
  bool chance(std::uint32_t weight) { return (next() >> 56) < weight; }

 private:
  std::uint64_t state_;
};

}  // namespace tandem::model
