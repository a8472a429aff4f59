// Entry points for the device.
#include "model/primitives/primitives.cuh"

using namespace tandem;

TANDEM_KERNEL(128, 1) primitives_wgmma_fp16(TANDEM_GRID_CONSTANT primitives::Params params) { primitives::multiply_every_shape<DType::fp16>(params); }
TANDEM_KERNEL(128, 1) primitives_wgmma_bf16(TANDEM_GRID_CONSTANT primitives::Params params) { primitives::multiply_every_shape<DType::bf16>(params); }
TANDEM_KERNEL(128, 1) primitives_moves(TANDEM_GRID_CONSTANT primitives::Params params) { primitives::move_everything(params); }
TANDEM_KERNEL(128, 1) primitives_arithmetic(TANDEM_GRID_CONSTANT primitives::Params params) { primitives::compute_everything(params); }
TANDEM_KERNEL(128, 1) primitives_multicast(TANDEM_GRID_CONSTANT primitives::Params params) { primitives::multicast(params); }
