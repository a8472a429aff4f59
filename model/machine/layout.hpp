// Names for what lies in a block's shared memory, so that diagnoses speak of k[1] and q_ring.full[0] and not of offsets.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tandem::model {

struct SharedField {
  enum class Kind { buffer, barrier, tile };  // tile: what a role works on; printed beside a diagnosis

  std::string name;
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
  Kind kind = Kind::buffer;

  std::uint32_t end() const { return offset + bytes; }
};

class SharedLayout {
 public:
  SharedLayout() = default;
  explicit SharedLayout(std::vector<SharedField> fields);

  // The field that holds this byte; nullptr between fields.
  const SharedField* find(std::uint32_t offset) const;

  // "k[1]+0x400", or the bare offset between fields.
  std::string describe(std::uint32_t offset) const;
  // The field's name alone, or the bare offset.
  std::string name(std::uint32_t offset) const;

  const std::vector<SharedField>& fields() const { return fields_; }

 private:
  std::vector<SharedField> fields_;  // by offset
};

}  // namespace tandem::model
