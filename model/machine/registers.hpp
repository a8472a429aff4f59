// Registers that WGMMA uses asynchronously. A register is a word on a fiber's stack; its shadow word says who may touch it, and when ordinary
// code last did. The epoch counts the thread's wgmma.fence: a word touched in the current epoch has not been fenced since.
#pragma once

#include "machine/fiber.hpp"

namespace tandem::model {

constexpr RegisterShadow kAccumulatorInFlight = 1u << 31;  // nobody may touch it
constexpr RegisterShadow kOperandInFlight = 1u << 30;      // nobody may write it
constexpr RegisterShadow kInFlight = kAccumulatorInFlight | kOperandInFlight;
constexpr RegisterShadow kEpochMask = kOperandInFlight - 1;

// What an accumulator reads as before its WGMMA has been waited for.
constexpr std::uint32_t kPoison = 0x7fc0dead;

}  // namespace tandem::model
