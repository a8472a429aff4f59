// A tensor of a test on the host: the values, and the bytes of the buffer that holds them in some layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/tensor.hpp"
#include "support/layout.hpp"

namespace tandem::testing {

// Values in logical order (batch, seqlen, heads, dim), whatever the layout. fp32 holds every element type exactly.
struct Values {
  Shape shape{};
  std::vector<float> data;

  Values() = default;
  explicit Values(const Shape& s, float fill = 0.0f);

  std::size_t index(std::int64_t b, std::int64_t s, std::int64_t h, std::int64_t d) const {
    return static_cast<std::size_t>(((b * shape[1] + s) * shape[2] + h) * shape[3] + d);
  }
  float& at(std::int64_t b, std::int64_t s, std::int64_t h, std::int64_t d) { return data[index(b, s, h, d)]; }
  float at(std::int64_t b, std::int64_t s, std::int64_t h, std::int64_t d) const { return data[index(b, s, h, d)]; }
  const float* row(std::int64_t b, std::int64_t s, std::int64_t h) const { return data.data() + index(b, s, h, 0); }
};

// Every byte of the buffer that is no element of the tensor is 0xff, which is NaN in all element types: a read outside shows.
inline constexpr std::byte kPoison{0xff};

class HostTensor {
 public:
  // All poison, elements included: what an output looks like before the call.
  HostTensor(ElementType type, const Shape& shape, Layout layout);
  HostTensor(ElementType type, const Shape& shape, const Placement& placement);

  ElementType type() const { return type_; }
  const Shape& shape() const { return shape_; }
  const Placement& placement() const { return placement_; }
  std::vector<std::byte>& bytes() { return bytes_; }
  const std::vector<std::byte>& bytes() const { return bytes_; }

  // Rounds to the type. In an expanded layout the last of the values that share an element stays: read them back with values().
  void set(const Values& values);
  Values values() const;
  std::vector<std::uint32_t> bits() const;  // in logical order

  // The number of bytes outside the tensor that are no longer poison.
  std::int64_t damaged_bytes() const;

  // As the library sees it, with the buffer at `base`.
  Tensor view(void* base) const;

 private:
  std::uint32_t load(std::int64_t element) const;
  void store(std::int64_t element, std::uint32_t bits);

  ElementType type_;
  Shape shape_;
  Placement placement_;
  std::vector<std::byte> bytes_;
};

}  // namespace tandem::testing
