#include "machine/layout.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::model {

SharedLayout::SharedLayout(std::vector<SharedField> fields) : fields_(std::move(fields)) {
  std::sort(fields_.begin(), fields_.end(), [](const SharedField& a, const SharedField& b) { return a.offset < b.offset; });
}

const SharedField* SharedLayout::find(std::uint32_t offset) const {
  auto after = std::upper_bound(fields_.begin(), fields_.end(), offset, [](std::uint32_t value, const SharedField& field) { return value < field.offset; });
  if (after == fields_.begin()) return nullptr;
  const SharedField& field = *--after;
  return offset < field.end() ? &field : nullptr;
}

std::string SharedLayout::describe(std::uint32_t offset) const {
  const SharedField* field = find(offset);
  if (field == nullptr) return fmt::format("shared memory at {:#x}", offset);
  return offset == field->offset ? field->name : fmt::format("{}+{:#x}", field->name, offset - field->offset);
}

std::string SharedLayout::name(std::uint32_t offset) const {
  const SharedField* field = find(offset);
  return field == nullptr ? fmt::format("shared memory at {:#x}", offset) : field->name;
}

}  // namespace tandem::model
