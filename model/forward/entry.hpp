// One forward kernel as a host function. The translation unit that includes this defines kSpec before and is compiled with instrumented
// accesses (see machine/memory_hooks.cpp); it includes nothing else, so that none of its inline functions ends up in the machine.
#pragma once

#include "attention/forward.cuh"

namespace tandem::model {

template <ForwardSpec kSpec>
void forward_entry(const void* params) {
  attention::forward<kSpec>(*static_cast<const ForwardParams*>(params));
}

}  // namespace tandem::model
