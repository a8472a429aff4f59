// From an instruction address of a kernel to its line and the inlined calls above it.
#pragma once

#include <cstdint>
#include <string>

namespace tandem::model {

// "attention/forward.cuh:340 issue_qk < attention/forward.cuh:215 step < ...": innermost first, without the frames of the vocabulary itself.
// `return_address` is what __builtin_return_address gave. Slow (it reads debug information): for diagnoses only.
std::string describe_source(const void* return_address);

}  // namespace tandem::model
