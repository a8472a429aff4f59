#include "support/tensor.hpp"

#include <cstring>

#include "support/number_format.hpp"

namespace tandem::testing {
namespace {

std::size_t count(const Shape& shape) { return static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]); }

// Calls visit(element of the buffer, position in logical order).
template <class Visit>
void for_each_element(const Shape& shape, const Placement& placement, Visit&& visit) {
  std::size_t position = 0;
  for (std::int64_t b = 0; b < shape[0]; ++b) {
    for (std::int64_t s = 0; s < shape[1]; ++s) {
      for (std::int64_t h = 0; h < shape[2]; ++h) {
        for (std::int64_t d = 0; d < shape[3]; ++d) visit(placement.element(b, s, h, d), position++);
      }
    }
  }
}

}  // namespace

Values::Values(const Shape& s, float fill) : shape(s), data(count(s), fill) {}

HostTensor::HostTensor(ElementType type, const Shape& shape, Layout layout) : HostTensor(type, shape, place(layout, shape)) {}

HostTensor::HostTensor(ElementType type, const Shape& shape, const Placement& placement)
    : type_(type), shape_(shape), placement_(placement), bytes_(static_cast<std::size_t>(placement.buffer_elements * size_of(type)), kPoison) {}

std::uint32_t HostTensor::load(std::int64_t element) const {
  std::uint32_t bits = 0;  // little-endian, like every machine that the library runs on
  std::memcpy(&bits, bytes_.data() + element * size_of(type_), static_cast<std::size_t>(size_of(type_)));
  return bits;
}

void HostTensor::store(std::int64_t element, std::uint32_t bits) {
  std::memcpy(bytes_.data() + element * size_of(type_), &bits, static_cast<std::size_t>(size_of(type_)));
}

void HostTensor::set(const Values& values) {
  for_each_element(shape_, placement_,
                   [&](std::int64_t element, std::size_t i) { store(element, encode(type_, round_to(type_, static_cast<double>(values.data[i])))); });
}

Values HostTensor::values() const {
  Values values(shape_);
  for_each_element(shape_, placement_, [&](std::int64_t element, std::size_t i) { values.data[i] = static_cast<float>(decode(type_, load(element))); });
  return values;
}

std::vector<std::uint32_t> HostTensor::bits() const {
  std::vector<std::uint32_t> all(count(shape_));
  for_each_element(shape_, placement_, [&](std::int64_t element, std::size_t i) { all[i] = load(element); });
  return all;
}

std::int64_t HostTensor::damaged_bytes() const {
  std::vector<bool> inside(static_cast<std::size_t>(placement_.buffer_elements), false);
  for_each_element(shape_, placement_, [&](std::int64_t element, std::size_t) { inside[static_cast<std::size_t>(element)] = true; });
  std::int64_t damaged = 0;
  const auto element_bytes = static_cast<std::size_t>(size_of(type_));
  for (std::size_t byte = 0; byte < bytes_.size(); ++byte) {
    if (!inside[byte / element_bytes] && bytes_[byte] != kPoison) ++damaged;
  }
  return damaged;
}

Tensor HostTensor::view(void* base) const {
  Tensor tensor;
  tensor.data = base == nullptr ? nullptr : static_cast<std::byte*>(base) + placement_.offset * size_of(type_);
  tensor.shape = shape_;
  tensor.stride = placement_.stride;
  tensor.type = type_;
  return tensor;
}

}  // namespace tandem::testing
