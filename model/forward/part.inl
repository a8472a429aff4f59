// Every kParts-th forward kernel that the model plays, from kernel TANDEM_MODEL_PART on, as host functions. CMake writes a file for each part, so that
// they compile beside each other.
#include "forward/entry.hpp"
#include "forward/shipped_images.hpp"

namespace tandem::model {

template <std::size_t kIndex>
Entry find_entry(std::size_t index) {
  if constexpr (kIndex < kPlayedCount)
    return index == kIndex ? &forward_entry<played_forward(kIndex)> : find_entry<kIndex + kParts>(index);
  else
    return nullptr;
}

template <>
Entry entry_of_part<TANDEM_MODEL_PART>(std::size_t index) {
  return find_entry<TANDEM_MODEL_PART>(index);
}

}  // namespace tandem::model
