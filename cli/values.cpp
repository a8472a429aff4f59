#include "values.hpp"

#include "normal_bf16.hpp"

#include <cmath>
#include <numbers>

#include "element.hpp"
#include "failure.hpp"
#include "parallel.hpp"

namespace tandem::cli {
namespace {

// SplitMix64: well mixed bits of a counter.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

struct Pair {
  float first, second;
};

// Two normal numbers of a counter, by Box and Muller.
Pair normal_pair(std::uint64_t counter) {
  const std::uint64_t bits = mix(counter);
  const float radius_of = (static_cast<float>(bits >> 40) + 1.0f) * 0x1p-24f, turn = static_cast<float>(bits & 0xffffffu) * 0x1p-24f;
  const float radius = std::sqrt(-2.0f * std::log(radius_of)), angle = 2.0f * std::numbers::pi_v<float> * turn;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

Pair values_of(Values values, std::uint64_t counter) {
  switch (values) {
    case Values::equal: return {1.0f, 1.0f};
    case Values::normal: return normal_pair(counter);
    case Values::large: {
      const Pair pair = normal_pair(counter);
      return {30.0f * pair.first, 30.0f * pair.second};
    }
    case Values::outliers: {
      Pair pair = normal_pair(counter);
      const std::uint64_t bits = mix(~counter);
      const Pair more = normal_pair(counter ^ 0x5555555555555555ull);
      if (bits % 1000 == 0) pair.first += 10.0f * more.first;
      if ((bits >> 32) % 1000 == 0) pair.second += 10.0f * more.second;
      return pair;
    }
  }
  return {0.0f, 0.0f};
}

constexpr std::pair<Values, std::string_view> kNames[] = {
    {Values::normal, "normal"}, {Values::outliers, "outliers"}, {Values::large, "large"}, {Values::equal, "equal"}};

}  // namespace

std::string_view name_of(Values values) {
  for (const auto& [value, name] : kNames)
    if (value == values) return name;
  return "?";
}

Values parse_values(const std::string& name) {
  for (const auto& [value, text] : kNames)
    if (text == name) return value;
  fail("values is '{}'; it must be normal, outliers, large or equal", name);
}

void fill(HostTensor& tensor, Values values, std::uint64_t seed) {
  const auto [batch, seqlen, heads, dim] = tensor.shape;
  const std::uint64_t base = mix(seed), row_pairs = static_cast<std::uint64_t>(dim + 1) / 2;
  const std::int64_t step = tensor.stride[3] * static_cast<std::int64_t>(size_of(tensor.type));
  parallel_for(static_cast<std::size_t>(batch * seqlen), [&, heads = heads, dim = dim, seqlen = seqlen](std::size_t i) {
    const auto b = static_cast<std::int64_t>(i) / seqlen, s = static_cast<std::int64_t>(i) % seqlen;
    for (std::int64_t h = 0; h < heads; ++h) {
      std::byte* const row = tensor.at(b, s, h, 0);
      const std::uint64_t counter = base + static_cast<std::uint64_t>((static_cast<std::int64_t>(i) * heads + h)) * row_pairs;
      for (std::int64_t d = 0; d < dim; d += 2) {
        const Pair pair = values_of(values, counter + static_cast<std::uint64_t>(d / 2));
        store_element(row + d * step, static_cast<double>(pair.first), tensor.type);
        if (d + 1 < dim) store_element(row + (d + 1) * step, static_cast<double>(pair.second), tensor.type);
      }
    }
  });
}

std::vector<std::byte> normal_bf16(const std::array<std::int64_t, 4>& shape, std::uint64_t seed) {
  HostTensor tensor = make_tensor(shape, DataType::bf16, Layout::bshd);
  fill(tensor, Values::normal, seed);
  return std::move(tensor.storage);
}

}  // namespace tandem::cli
