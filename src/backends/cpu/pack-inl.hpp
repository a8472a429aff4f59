// Rows of the caller's tensors to fp32 and back, for each instruction set. Included once per target by forward_kernel.cpp.
//
// Conversion to fp32 is exact, so what is computed from a packed tile cannot depend on the layout that it was read from.
#if defined(TANDEM_CPU_PACK_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_CPU_PACK_INL
#undef TANDEM_CPU_PACK_INL
#else
#define TANDEM_CPU_PACK_INL
#endif

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "backends/cpu/gemm-inl.hpp"
#include "backends/cpu/narrow_float.hpp"
#include "common/tensor.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Reads `count` elements that lie `stride` elements apart. Nothing beyond the last one is touched.
using ReadRow = void (*)(const void* from, std::int64_t stride, int count, float* to);
using WriteRow = void (*)(const float* from, int from_stride, float factor, int count, void* to, std::int64_t stride);

inline void read_fp32(const void* from, std::int64_t stride, int count, float* to) {
  const auto* source = static_cast<const float*>(from);
  if (stride == 1) {
    std::memcpy(to, source, static_cast<std::size_t>(count) * sizeof(float));
  } else {
    for (int i = 0; i < count; ++i) to[i] = source[i * stride];
  }
}

inline void read_bf16(const void* from, std::int64_t stride, int count, float* to) {
  const auto* source = static_cast<const std::uint16_t*>(from);
  int i = 0;
  if (stride == 1) {
    const Floats d;
    const hn::RebindToUnsigned<Floats> du;
    const hn::Rebind<std::uint16_t, Floats> dh;
    for (; i + kLanes <= count; i += kLanes) {
      hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(dh, source + i)))), d, to + i);
    }
  }
  for (; i < count; ++i) to[i] = bf16_to_fp32(source[i * stride]);
}

inline void read_fp16(const void* from, std::int64_t stride, int count, float* to) {
  const auto* source = static_cast<const std::uint16_t*>(from);
  int i = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3  // elsewhere the vector conversion is emulated, without infinities and NaN
  if (stride == 1) {
    const Floats d;
    const hn::Rebind<hwy::float16_t, Floats> dh;
    const hn::Rebind<std::uint16_t, Floats> du;
    for (; i + kLanes <= count; i += kLanes) hn::StoreU(hn::PromoteTo(d, hn::BitCast(dh, hn::LoadU(du, source + i))), d, to + i);
  }
#endif
  for (; i < count; ++i) to[i] = fp16_to_fp32(source[i * stride]);
}

inline void write_fp32(const float* from, int from_stride, float factor, int count, void* to, std::int64_t stride) {
  auto* target = static_cast<float*>(to);
  for (int i = 0; i < count; ++i) target[i * stride] = from[i * from_stride] * factor;
}

inline void write_bf16(const float* from, int from_stride, float factor, int count, void* to, std::int64_t stride) {
  auto* target = static_cast<std::uint16_t*>(to);
  for (int i = 0; i < count; ++i) target[i * stride] = fp32_to_bf16(from[i * from_stride] * factor);
}

inline void write_fp16(const float* from, int from_stride, float factor, int count, void* to, std::int64_t stride) {
  auto* target = static_cast<std::uint16_t*>(to);
  for (int i = 0; i < count; ++i) target[i * stride] = fp32_to_fp16(from[i * from_stride] * factor);
}

inline ReadRow reader_of(ElementType type) {
  switch (type) {
    case ElementType::fp16: return read_fp16;
    case ElementType::bf16: return read_bf16;
    case ElementType::fp32: break;
  }
  return read_fp32;
}

inline WriteRow writer_of(ElementType type) {
  switch (type) {
    case ElementType::fp16: return write_fp16;
    case ElementType::bf16: return write_bf16;
    case ElementType::fp32: break;
  }
  return write_fp32;
}

// What of a tile of V needs care.
struct Magnitude {
  std::uint32_t largest = 0;  // bits of the largest |v|

  bool finite() const { return largest < 0x7f800000u; }
  // From 2^103 on, a sum of weights up to 1 times such values may overflow although their mean does not.
  bool large() const { return largest >= (103u + 127u) << 23; }
};

// `row` has room for a multiple of kLanes elements.
HWY_INLINE void widen(Magnitude& magnitude, float* row, int count) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> du;
  for (int i = count; i % kLanes != 0; ++i) row[i] = 0.0f;
  auto largest = hn::Zero(du);
  for (int i = 0; i < count; i += kLanes) largest = hn::Max(largest, hn::BitCast(du, hn::Abs(hn::LoadU(d, row + i))));
  magnitude.largest = std::max(magnitude.largest, hn::GetLane(hn::MaxOfLanes(du, largest)));
}

// Keys to [chunk][kTileKeys][kChunk]; rows up to the next multiple of kSmallestBlock are zeros.
inline void pack_keys(ReadRow read, const std::byte* from, std::int64_t row_bytes, std::int64_t element_bytes, std::int64_t stride, int keys, int head_dim,
                      float* to) {
  for (int first = 0; first < head_dim; first += kChunk, to += kTileKeys * kChunk, from += kChunk * stride * element_bytes) {
    const int columns = std::min(kChunk, head_dim - first);
    for (int key = 0; key < keys; ++key) read(from + key * row_bytes, stride, columns, to + key * kChunk);
    for (int key = keys; key < pad_to_block(keys); ++key) std::fill_n(to + key * kChunk, columns, 0.0f);
  }
}

template <int kWidth>
HWY_INLINE void copy_columns(const float* from, float* to) {
  std::memcpy(to, from, kWidth * sizeof(float));
}

// Values to blocks of columns, each [kTileKeys][width]. `row` is scratch for one padded row.
inline Magnitude pack_values(ReadRow read, const std::byte* from, std::int64_t row_bytes, std::int64_t stride, int keys, int head_dim_v, float* row,
                             float* to) {
  Magnitude magnitude;
  const int columns = pad_to_block(head_dim_v);
  std::fill(row + head_dim_v, row + columns, 0.0f);
  for (int key = 0; key < keys; ++key) {
    read(from + key * row_bytes, stride, head_dim_v, row);
    widen(magnitude, row, head_dim_v);
    int column = 0;
    for (; column + kBlock <= columns; column += kBlock) copy_columns<kBlock>(row + column, to + column * kTileKeys + key * kBlock);
    const int left = columns - column;
    if (left == 2 * kSmallestBlock) copy_columns<2 * kSmallestBlock>(row + column, to + column * kTileKeys + key * left);
    if (left == kSmallestBlock) copy_columns<kSmallestBlock>(row + column, to + column * kTileKeys + key * left);
  }
  return magnitude;
}

}  // namespace tandem::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
