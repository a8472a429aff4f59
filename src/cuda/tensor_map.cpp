#include "cuda/tensor_map.hpp"

namespace tandem::cuda {
namespace {

CUtensorMapSwizzle swizzle_of(const TensorMapRequest& request) {
  switch (request.swizzle_bytes) {
    case 32: return CU_TENSOR_MAP_SWIZZLE_32B;
    case 64: return CU_TENSOR_MAP_SWIZZLE_64B;
    default: return CU_TENSOR_MAP_SWIZZLE_128B;
  }
}

}  // namespace

static_assert(sizeof(TensorMap) == sizeof(CUtensorMap));

Status encode(const Driver& driver, const TensorMapRequest& request, EncodedMap& encoded) {
  if (request == encoded.request || !request.needed()) return {};
  auto* const map = reinterpret_cast<CUtensorMap*>(&encoded.map);
  const char* call = nullptr;
  CUresult result = CUDA_SUCCESS;
  if (encoded.request.base != nullptr && request.same_layout(encoded.request)) {
    call = "cuTensorMapReplaceAddress";
    result = driver.tensor_map_replace_address(map, const_cast<void*>(request.base));
  } else {
    constexpr cuuint32_t kUnitStride[5] = {1, 1, 1, 1, 1};
    call = "cuTensorMapEncodeTiled";
    result = driver.tensor_map_encode_tiled(
        map, request.type == DType::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, request.rank, const_cast<void*>(request.base),
        request.extent.data(), request.stride_bytes.data(), request.box.data(), kUnitStride, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(request),
        request.l2_bytes == 256 ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B : CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  }
  encoded.request = result == CUDA_SUCCESS ? request : TensorMapRequest{};
  if (result != CUDA_SUCCESS) return failure(driver, result, call);
  return {};
}

}  // namespace tandem::cuda
