// The kernels that note a timeline, as host functions that report their arithmetic.
#include "forward/entry.hpp"
#include "forward/shipped_images.hpp"

namespace tandem::model {

template <std::size_t kIndex>
Entry find_schedule(std::size_t index) {
  if constexpr (kIndex < kScheduleCount)
    return index == kIndex ? &forward_entry<kSchedules[kIndex].spec> : find_schedule<kIndex + 1>(index);
  else
    return nullptr;
}

Entry entry_of_schedule(std::size_t index) { return find_schedule<0>(index); }

}  // namespace tandem::model
