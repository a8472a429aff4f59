// The same entry points for the model; compiled with instrumented accesses.
#include "model/primitives/primitives.cuh"

namespace tandem::primitives {

void wgmma_fp16(const void* params) { multiply_every_shape<DType::fp16>(*static_cast<const Params*>(params)); }
void wgmma_bf16(const void* params) { multiply_every_shape<DType::bf16>(*static_cast<const Params*>(params)); }
void moves(const void* params) { move_everything(*static_cast<const Params*>(params)); }
void arithmetic(const void* params) { compute_everything(*static_cast<const Params*>(params)); }
void multicast_pair(const void* params) { multicast(*static_cast<const Params*>(params)); }

}  // namespace tandem::primitives
