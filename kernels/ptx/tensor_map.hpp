// The descriptor of a tensor for TMA; plain C++, shared with the host.
#pragma once

namespace tandem {

// CUtensorMap: opaque, made by the driver on the host. Must lie in kernel parameters, constant or global memory.
struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};

}  // namespace tandem
