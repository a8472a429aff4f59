#include "forward/shipped_images.hpp"

#include <utility>
#include <vector>

#include "forward/image.hpp"
#include "plan/spec_text.hpp"

namespace tandem::model {
namespace {

template <std::size_t... kIndex>
std::vector<KernelImage> make_images(std::index_sequence<kIndex...>) {
  return {forward_image<shipped_forward(kIndex)>(name_of(shipped_forward(kIndex)), entry_of_part<kIndex % kParts>(kIndex))...};
}

template <std::size_t... kIndex>
std::vector<KernelImage> make_schedule_images(std::index_sequence<kIndex...>) {
  return {forward_image<kSchedules[kIndex].spec>(name_of(kSchedules[kIndex].spec), entry_of_schedule(kIndex))...};
}

}  // namespace

const KernelImage& shipped_image(std::size_t index) {
  static const std::vector<KernelImage> images = make_images(std::make_index_sequence<kShippedCount>());
  return images[index];
}

const KernelImage& schedule_image(std::size_t index) {
  static const std::vector<KernelImage> images = make_schedule_images(std::make_index_sequence<kScheduleCount>());
  return images[index];
}

}  // namespace tandem::model
