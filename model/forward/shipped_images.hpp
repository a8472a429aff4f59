// The shipped forward kernels, and those that note a timeline, ready to run in the model.
#pragma once

#include <cstddef>
#include <iterator>

#include "plan/schedules.hpp"
#include "plan/shipped.hpp"

namespace tandem::model {

using Entry = void (*)(const void* params);

// Translation units that the kernels are spread over.
inline constexpr std::size_t kParts = TANDEM_MODEL_PARTS;

// The kernel of that index, which must be kPart modulo kParts.
template <std::size_t kPart>
Entry entry_of_part(std::size_t index);

// Of kSchedules.
inline constexpr std::size_t kScheduleCount = std::size(kSchedules);
Entry entry_of_schedule(std::size_t index);

struct KernelImage;

// `index` as in shipped_forward(). Made at the first call.
const KernelImage& shipped_image(std::size_t index);
const KernelImage& schedule_image(std::size_t index);

}  // namespace tandem::model
