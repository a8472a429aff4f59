#include "cuda/tensor_map.hpp"

namespace tandem::cuda {

static_assert(sizeof(TensorMap) == sizeof(CUtensorMap));

Status encode(const Driver& driver, const TensorMapRequest& request, TensorMap& map) {
  constexpr cuuint32_t kUnitStride[4] = {1, 1, 1, 1};
  const CUresult result = driver.tensor_map_encode_tiled(
      reinterpret_cast<CUtensorMap*>(&map), request.type == DType::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4,
      const_cast<void*>(request.base), request.extent.data(), request.stride_bytes.data(), request.box.data(), kUnitStride, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) return failure(driver, result, "cuTensorMapEncodeTiled");
  return {};
}

}  // namespace tandem::cuda
