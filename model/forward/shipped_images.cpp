#include "forward/shipped_images.hpp"

#include <utility>
#include <vector>

#include "forward/image.hpp"
#include "plan/spec_text.hpp"

namespace tandem::model {
namespace {

template <std::size_t... kIndex>
std::vector<KernelImage> make_images(std::index_sequence<kIndex...>) {
  return {forward_image<played_forward(kIndex)>(name_of(played_forward(kIndex)), entry_of_part<kIndex % kParts>(kIndex))...};
}

template <std::size_t... kIndex>
std::vector<KernelImage> make_schedule_images(std::index_sequence<kIndex...>) {
  return {forward_image<kSchedules[kIndex].spec>(name_of(kSchedules[kIndex].spec), entry_of_schedule(kIndex))...};
}

}  // namespace

const KernelImage& played_image(std::size_t index) {
  static const std::vector<KernelImage> images = make_images(std::make_index_sequence<kPlayedCount>());
  return images[index];
}

const KernelImage& schedule_image(std::size_t index) {
  static const std::vector<KernelImage> images = make_schedule_images(std::make_index_sequence<kScheduleCount>());
  return images[index];
}

const KernelImage& prepare_image() {
  static const KernelImage image = [] {
    KernelImage made;
    made.name = "prepare_ragged";
    made.entry = prepare_entry();
    made.threads = kPrepareThreads;
    made.named_barriers = {"block_sync"};
    made.role = [](int warp) { return fmt::format("warp {}", warp); };
    made.tile = [](const unsigned char*) { return std::string(); };
    made.map_name = [](const void*, const void*) { return std::string("an unknown tensor map"); };
    return made;
  }();
  return image;
}

}  // namespace tandem::model
