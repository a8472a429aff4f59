// The kernels that the model plays: the shipped ones, some for each mask and for ragged batches, and those that note a timeline.
#pragma once

#include <cstddef>
#include <iterator>

#include "forward/masked.hpp"
#include "plan/schedules.hpp"
#include "plan/shipped.hpp"

namespace tandem::model {

using Entry = void (*)(const void* params);

// Translation units that the kernels are spread over.
inline constexpr std::size_t kParts = TANDEM_MODEL_PARTS;

// First the shipped kernels, then those with masks, then kOddTiles.
inline constexpr std::size_t kPlayedCount = kShippedCount + kMaskedCount + std::size(kOddTiles);
constexpr ForwardSpec played_forward(std::size_t index) {
  if (index < kShippedCount) return shipped_forward(index);
  index -= kShippedCount;
  return index < kMaskedCount ? masked_forward(index) : kOddTiles[index - kMaskedCount];
}

// The kernel of that index, which must be kPart modulo kParts.
template <std::size_t kPart>
Entry entry_of_part(std::size_t index);

// Of kSchedules.
inline constexpr std::size_t kScheduleCount = std::size(kSchedules);
Entry entry_of_schedule(std::size_t index);

// What makes the tile list of a ragged batch.
Entry prepare_entry();

struct KernelImage;

// `index` as in played_forward(). Made at the first call.
const KernelImage& played_image(std::size_t index);
const KernelImage& prepare_image();
const KernelImage& schedule_image(std::size_t index);

}  // namespace tandem::model
