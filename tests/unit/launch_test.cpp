// From a call to tensor maps and kernel parameters: what cuTensorMapEncodeTiled demands, for every legal layout.
#include "plan/launch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "attention/budget.hpp"
#include "plan/planner.hpp"

namespace tandem {
namespace {

using Extent = std::array<std::uint64_t, 5>;
using Strides = std::array<std::uint64_t, 4>;
using Box = std::array<std::uint32_t, 5>;

void* address(std::uintptr_t value) { return reinterpret_cast<void*>(value); }

std::array<std::int64_t, 4> contiguous(const std::array<std::int64_t, 4>& shape) { return {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1}; }

Tensor tensor(std::uintptr_t at, std::array<std::int64_t, 4> shape) { return {address(at), shape, contiguous(shape), ElementType::bf16}; }

struct Case {
  ForwardProblem problem;
  ForwardCall call;
};

Case make_case(std::int64_t batch = 3, std::int64_t seqlen_q = 200, std::int64_t seqlen_k = 300, std::int64_t heads = 8, std::int64_t heads_kv = 2,
               std::int64_t head_dim = 128, std::int64_t head_dim_v = 64) {
  Case made;
  made.problem = {ElementType::bf16, batch, seqlen_q, seqlen_k, heads, heads_kv, head_dim, head_dim_v, false};
  made.call.q = tensor(0x1000, {batch, seqlen_q, heads, head_dim});
  made.call.k = tensor(0x2000, {batch, seqlen_k, heads_kv, head_dim});
  made.call.v = tensor(0x3000, {batch, seqlen_k, heads_kv, head_dim_v});
  made.call.out = tensor(0x4000, {batch, seqlen_q, heads, head_dim_v});
  return made;
}

ForwardParams params_of(const Case& c, const ForwardSpec& spec = {}, unsigned long long* counter = nullptr) {
  return make_params(make_geometry(spec, c.problem, 132, 32 << 20), c.problem, c.call, counter);
}

// What the driver's documentation demands of every map, whatever the layout.
void expect_encodable(const TensorMapRequest& map) {
  ASSERT_NE(map.base, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(map.base) % 16, 0u);
  for (std::size_t i = 0; i < map.rank; ++i) {
    EXPECT_GE(map.extent[i], 1u);
    EXPECT_LE(map.extent[i], 1ull << 32);
    EXPECT_GE(map.box[i], 1u);
    EXPECT_LE(map.box[i], 256u);
  }
  for (const std::uint64_t stride : map.stride_bytes) {
    EXPECT_EQ(stride % 16, 0u);
    EXPECT_LT(stride, 1ull << 40);
  }
  EXPECT_TRUE(map.swizzle_bytes == 32 || map.swizzle_bytes == 64 || map.swizzle_bytes == 128);
  EXPECT_LE(map.box[0] * 2, static_cast<std::uint32_t>(map.swizzle_bytes)) << "a row of the box fits a row of the swizzle";
}

std::array<const ChunkMapRequests*, 4> each(const TensorMapRequests& maps) { return {&maps.q, &maps.k, &maps.v, &maps.out}; }

void expect_encodable(const TensorMapRequests& maps) {
  for (const ChunkMapRequests* chunks : each(maps)) {
    expect_encodable(chunks->whole);
    EXPECT_EQ(chunks->whole.box[0], 64u);
    if (!chunks->last.needed()) continue;
    expect_encodable(chunks->last);
    TensorMapRequest wide = chunks->last;
    wide.box[0] = 64;
    wide.swizzle_bytes = 128;
    EXPECT_EQ(wide, chunks->whole) << "the same tensor, another box";
  }
}

TEST(TensorMaps, DescribeContiguousTensors) {
  const Case c = make_case();
  const ForwardSpec spec{.head_dim = 128, .head_dim_v = 64, .consumer_warpgroups = 3, .block_n = 96};
  const TensorMapRequests maps = make_tensor_maps(spec, c.problem, c.call);
  expect_encodable(maps);
  EXPECT_EQ(maps.q.whole.base, c.call.q.data);
  EXPECT_EQ(maps.q.whole.extent, (Extent{128, 200, 8, 3}));
  EXPECT_EQ(maps.q.whole.stride_bytes, (Strides{2 * 8 * 128, 2 * 128, 2 * 200 * 8 * 128}));
  EXPECT_EQ(maps.q.whole.box, (Box{64, 192, 1, 1, 1}));
  EXPECT_EQ(maps.k.whole.base, c.call.k.data);
  EXPECT_EQ(maps.k.whole.extent, (Extent{128, 300, 2, 3}));
  EXPECT_EQ(maps.k.whole.box, (Box{64, 96, 1, 1, 1}));
  EXPECT_EQ(maps.v.whole.extent, (Extent{64, 300, 2, 3}));
  EXPECT_EQ(maps.v.whole.stride_bytes, (Strides{2 * 2 * 64, 2 * 64, 2 * 300 * 2 * 64}));
  EXPECT_EQ(maps.v.whole.box, (Box{64, 96, 1, 1, 1}));
  EXPECT_EQ(maps.out.whole.base, c.call.out.data);
  EXPECT_EQ(maps.out.whole.extent, (Extent{64, 200, 8, 3}));
  EXPECT_EQ(maps.out.whole.box, (Box{64, 16, 1, 1, 1})) << "a warp stores its own 16 rows";
}

TEST(TensorMaps, EndWithTheTensor) {
  for (const bool ragged : {false, true})
    for (std::int64_t head_dim = 8; head_dim <= 256; head_dim += 8) {
      SCOPED_TRACE(head_dim);
      Case c = make_case(1, 200, 300, 8, 2, head_dim, head_dim);
      c.problem.packed_q = c.problem.packed_k = ragged;
      ForwardSpec spec = plan_forward(c.problem, {}).value().spec;
      const TensorMapRequests maps = make_tensor_maps(spec, c.problem, c.call);
      expect_encodable(maps);
      for (const ChunkMapRequests* chunks : each(maps)) EXPECT_EQ(chunks->last.box[0], head_dim % 64) << "0: not needed";
      if (head_dim % 64 != 0) {
        const int left = static_cast<int>((head_dim + 15) / 16 * 16 % 64);
        EXPECT_EQ(maps.k.last.swizzle_bytes, left == 16 ? 32 : left == 32 ? 64 : 128) << "K's last chunk is no wider than its columns need";
        EXPECT_EQ(maps.q.last.swizzle_bytes, 128);
        EXPECT_EQ(maps.v.last.swizzle_bytes, 128);
      }
      const auto loaded = [&] {
        const ForwardParams params = params_of(c, spec);
        return std::array{params.q_columns, params.k_columns, params.v_columns};
      };
      const int columns = static_cast<int>(head_dim);
      EXPECT_EQ(loaded(), (std::array{columns, columns, columns}));

      spec.output_stage = OutputStage::q_buffer;
      EXPECT_EQ(loaded(), (std::array{spec.head_dim, columns, columns})) << "O leaves something beyond Q's columns, which each load makes zeros again";
      EXPECT_EQ(make_tensor_maps(spec, c.problem, c.call).q.last.box[0], spec.head_dim % 64);
    }
}

TEST(TensorMaps, CarryTheType) {
  const Case c = make_case();
  for (const DType type : {DType::fp16, DType::bf16}) {
    const TensorMapRequests maps = make_tensor_maps(ForwardSpec{.dtype = type}, c.problem, c.call);
    for (const ChunkMapRequests* chunks : each(maps)) EXPECT_EQ(chunks->whole.type, type);
  }
}

TEST(TensorMaps, FollowASliceOfAPackedTensor) {
  Case c = make_case(2, 64, 64, 4, 4, 64, 64);
  c.call.k.data = address(0x1000 + 2 * 4 * 64);  // (batch, seqlen, 3, heads, dim): K stands behind Q in every row
  for (Tensor* packed : {&c.call.q, &c.call.k}) packed->stride = {64 * 3 * 4 * 64, 3 * 4 * 64, 64, 1};
  const TensorMapRequests maps = make_tensor_maps({.head_dim = 64, .head_dim_v = 64}, c.problem, c.call);
  expect_encodable(maps);
  EXPECT_EQ(maps.k.whole.base, c.call.k.data);
  EXPECT_EQ(maps.k.whole.extent, (Extent{64, 64, 4, 2}));
  EXPECT_EQ(maps.k.whole.stride_bytes, (Strides{2 * 768, 2 * 64, 2 * 64 * 768}));
}

TEST(TensorMaps, FollowHeadsFirstTensors) {
  Case c = make_case(2, 100, 100, 4, 4, 64, 64);
  c.call.v.stride = {4 * 100 * 64, 64, 100 * 64, 1};
  const TensorMapRequests maps = make_tensor_maps({.head_dim = 64, .head_dim_v = 64}, c.problem, c.call);
  EXPECT_EQ(maps.v.whole.extent, (Extent{64, 100, 4, 2}));
  EXPECT_EQ(maps.v.whole.stride_bytes, (Strides{2 * 64, 2 * 100 * 64, 2 * 4 * 100 * 64}));
}

TEST(TensorMaps, NeverUseTheStrideOfAnAxisOfLengthOne) {
  Case c = make_case(1, 1, 1, 1, 1, 128, 64);
  for (Tensor* t : {&c.call.q, &c.call.k, &c.call.v, &c.call.out})
    for (std::size_t axis = 0; axis < 3; ++axis) t->stride[axis] = axis == 0 ? -5 : axis == 1 ? 3 : std::int64_t{1} << 60;
  const TensorMapRequests maps = make_tensor_maps({}, c.problem, c.call);
  expect_encodable(maps);
  EXPECT_EQ(maps.q.whole.extent, (Extent{128, 1, 1, 1}));
}

TEST(TensorMaps, KeepTheStrideZeroOfAnExpandedAxis) {
  Case c = make_case();
  c.call.k.stride[0] = 0;
  c.call.k.stride[2] = 0;
  const TensorMapRequests maps = make_tensor_maps({}, c.problem, c.call);
  expect_encodable(maps);
  EXPECT_EQ(maps.k.whole.extent, (Extent{128, 300, 2, 3}));
  EXPECT_EQ(maps.k.whole.stride_bytes, (Strides{2 * 2 * 128, 0, 0}));
}

TEST(TensorMaps, ReadQWhereThereAreNoKeys) {
  Case c = make_case(3, 200, 0);
  c.call.k.data = c.call.v.data = nullptr;
  const ForwardSpec spec{.head_dim = 128, .head_dim_v = 64, .block_n = 96};
  const TensorMapRequests maps = make_tensor_maps(spec, c.problem, c.call);
  expect_encodable(maps);
  for (const TensorMapRequest* map : {&maps.k.whole, &maps.v.whole}) {
    EXPECT_EQ(map->base, c.call.q.data);
    EXPECT_EQ(map->box, (Box{64, 96, 1, 1, 1}));
    EXPECT_LE(map->extent[0], static_cast<std::uint64_t>(c.problem.head_dim)) << "inside the tensor whose memory it names";
    EXPECT_LE(map->extent[1], static_cast<std::uint64_t>(c.problem.seqlen_q));
  }
}

// attention/sequence.cuh: row `i` of a sequence of `length` rows that ends at `end` is at (rows - length + i, end).
TEST(TensorMaps, OfRaggedTensorsEndWhereASequenceEnds) {
  Case c = make_case(1, 200, 300);
  c.problem.packed_q = c.problem.packed_k = true;
  const ForwardSpec spec{.head_dim = 128, .head_dim_v = 64, .ragged = true, .block_n = 96};
  const TensorMapRequests maps = make_tensor_maps(spec, c.problem, c.call);
  expect_encodable(maps);
  const auto address = [](const TensorMapRequest& map, std::uint64_t row, std::uint64_t end) {
    return reinterpret_cast<std::uintptr_t>(map.base) + row * map.stride_bytes[0] + end * map.stride_bytes[2];
  };
  for (const ChunkMapRequests* chunks : each(maps)) {
    const TensorMapRequest* const map = &chunks->whole;
    EXPECT_EQ(map->rank, 5u);
    const std::uint64_t rows = map->extent[1], stride = map->stride_bytes[0];
    const auto first = address(*map, rows - 7, 7);  // a sequence of rows 0 ... 6
    EXPECT_EQ(address(*map, rows - 7 + 3, 7), first + 3 * stride);
    EXPECT_EQ(address(*map, rows - 5, 12), first + 7 * stride) << "the next sequence, of five rows, begins where the first ends";
    EXPECT_EQ(map->extent[3], rows + 1);
  }
  EXPECT_EQ(address(maps.k.whole, 300 - 7, 7), reinterpret_cast<std::uintptr_t>(c.call.k.data));
}

TEST(TensorMaps, EncodeEveryHeadDimAndLength) {
  for (std::int64_t head_dim = 8; head_dim <= 256; head_dim += 8)
    for (const std::int64_t seqlen_k : {0, 1, 129}) {
      const Case c = make_case(2, 1, seqlen_k, 4, 2, head_dim, head_dim);
      const auto plan = plan_forward(c.problem, {});
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      const TensorMapRequests maps = make_tensor_maps(plan.value().spec, c.problem, c.call);
      expect_encodable(maps);
      EXPECT_EQ(maps.q.whole.extent[0], static_cast<std::uint64_t>(head_dim)) << "columns beyond it are zeros, not the neighbour's";
    }
}

// ------------------------------------------------------------------------------------------------------------------------- parameters

TEST(ForwardParams, CarryTheCall) {
  Case c = make_case();
  float lse = 0;
  unsigned long long counter = 0;
  c.call.lse = &lse;
  c.call.lse_stride_batch = 5'000;
  c.call.lse_stride_head = 300;
  c.call.out.stride = {1'000'000, 1'024, 80, 1};
  c.call.softmax_scale = 0.125f;
  const ForwardParams params = params_of(c, {}, &counter);
  EXPECT_EQ(params.seqlen_q, 200);
  EXPECT_EQ(params.seqlen_k, 300);
  EXPECT_EQ(params.head_dim, 128);
  EXPECT_EQ(params.head_dim_v, 64);
  EXPECT_EQ(params.kv_group.divisor, 4);
  EXPECT_EQ(params.out.data, c.call.out.data);
  EXPECT_EQ(params.out.stride_batch, 1'000'000);
  EXPECT_EQ(params.out.stride_row, 1'024);
  EXPECT_EQ(params.out.stride_head, 80);
  EXPECT_EQ(params.q.data, c.call.q.data);
  EXPECT_EQ(params.k.stride_row, 2 * 128);
  EXPECT_EQ(params.v.stride_head, 64);
  EXPECT_EQ(params.lse, &lse);
  EXPECT_EQ(params.lse_stride_batch, 5'000);
  EXPECT_EQ(params.lse_stride_head, 300);
  EXPECT_EQ(params.counter, &counter);
  EXPECT_FLOAT_EQ(params.scale_log2, 0.125f * 1.44269504f);
}

TEST(ForwardParams, TakeEveryFiniteScale) {
  // 0: a masked score is -inf and must stay so. The largest: a score of 0 must stay 0.
  for (const float scale : {0.0f, 1e-45f, 1e-30f, 0.125f, 1.0f, 1e30f, std::numeric_limits<float>::max()}) {
    Case c = make_case();
    c.call.softmax_scale = scale;
    const float scale_log2 = params_of(c).scale_log2;
    EXPECT_TRUE(std::isfinite(scale_log2)) << scale;
    EXPECT_GT(scale_log2, 0.0f) << scale;
    EXPECT_EQ(-std::numeric_limits<float>::infinity() * scale_log2, -std::numeric_limits<float>::infinity());
  }
}

TEST(TensorMaps, LoadsBringInWhatTheAlignmentOfRowsMakesUseOf) {
  const auto l2_bytes = [](std::int64_t heads, std::int64_t head_dim) {
    const Case c = make_case(2, 70, 70, heads, heads, head_dim, head_dim);
    return make_tensor_maps({.head_dim = tile_width(head_dim), .head_dim_v = tile_width(head_dim)}, c.problem, c.call).k.whole.l2_bytes;
  };
  for (const std::int64_t head_dim : {64, 80, 96}) EXPECT_EQ(l2_bytes(5, head_dim), 256) << head_dim;
  for (const std::int64_t head_dim : {112, 128, 192, 256}) EXPECT_EQ(l2_bytes(5, head_dim), 128) << head_dim;
  for (const std::int64_t head_dim : {8, 72, 88, 120}) EXPECT_EQ(l2_bytes(5, head_dim), 128) << head_dim << ": rows begin inside sectors";
}

// Up to params.gentle every product that the cubic makes is an ordinary number.
TEST(ForwardParams, ScoresAreCappedByACubicOnlyWhereItsNumbersAreOrdinary) {
  const auto normal = [](float x) { return std::isnormal(x); };
  int by_cubic = 0;
  for (const float scale : {0.0f, 1e-30f, 1e-16f, 1e-3f, 0.125f, 1.0f, 1e8f, 1e20f})
    for (const float softcap : {1e-21f, 1e-3f, 1.0f, 15.0f, 50.0f, 1e4f, 1e25f, 1e30f}) {
      SCOPED_TRACE(::testing::Message() << "scale " << scale << ", softcap " << softcap);
      Case c = make_case(1, 70, 70, 1, 1, 64, 64);
      c.problem.softcap = true;
      c.call.softmax_scale = scale;
      c.call.softcap = softcap;
      const ForwardParams params = params_of(c, {.head_dim = 64, .head_dim_v = 64, .softcap = true});
      if (params.gentle == -1.0f) continue;
      ++by_cubic;
      const float slope = params.scale_log2 * params.cap_scale, cubic = slope * params.cap_scale * params.cap_scale * kCubic,
                  square = params.gentle * params.gentle;
      EXPECT_FLOAT_EQ(params.gentle * params.cap_scale, kGentle);
      EXPECT_TRUE(normal(slope) && normal(cubic) && normal(square) && normal(square * cubic));
      const double exact = std::tanh(double{kGentle}) * params.scale_log2, ours = double{params.gentle} * (double{slope} + double{square} * double{cubic});
      EXPECT_NEAR(ours / exact, 1.0, 0x1p-11);
    }
  EXPECT_GE(by_cubic, 12);  // ordinary ones among them
}

// The compiler joins comparisons and differences of what stands here (params.hpp): open sides of windows once made a kernel wait for ever.
TEST(ForwardParams, ReachOfMasksLeavesEveryPositionIn32Bits) {
  constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1026, kRowsBeyond = 191;  // seqlen_q + seqlen_k; rows of a tile behind the last query
  constexpr std::int64_t kLeast32 = std::numeric_limits<int>::min(), kLargest32 = std::numeric_limits<int>::max();
  for (const auto& [seqlen_q, seqlen_k] : {std::pair{std::int64_t{301}, std::int64_t{70}}, {kMost - 1, 1}, {1, kMost - 1}, {kMost / 2, kMost / 2}})
    for (const std::int64_t asked : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{5}, kLargest32, std::numeric_limits<std::int64_t>::max()}) {
      SCOPED_TRACE(::testing::Message() << seqlen_q << " queries, " << seqlen_k << " keys, asked for " << asked);
      Case c = make_case(1, seqlen_q, seqlen_k, 1, 1, 64, 64);
      c.problem.window_left = c.problem.window_right = asked;
      c.problem.attention_chunk = std::max<std::int64_t>(asked, 0);
      const ForwardParams params = params_of(c, {.head_dim = 64, .head_dim_v = 64, .local = true});
      const std::int64_t first = -seqlen_q, last = seqlen_k + kRowsBeyond;  // positions
      EXPECT_GE(first - params.window_left, kLeast32);
      EXPECT_LE(last + params.window_right + 1, kLargest32);
      if (asked < 0 || asked > kLargest32 / 2) {
        EXPECT_LE(last - params.window_left, 0) << "a key is out of reach";
        EXPECT_GE(seqlen_k - seqlen_q + params.window_right + 1, seqlen_k) << "a key is out of reach";
        if (asked > 0) {
          EXPECT_GT(params.chunk.divisor, last) << "more than one chunk";
        }
      } else {
        EXPECT_EQ(params.window_left, asked);
        EXPECT_EQ(params.window_right, asked);
        EXPECT_EQ(params.chunk.divisor, asked);
      }
    }
}

TEST(ForwardParams, FitTheParametersOfALaunch) {
  EXPECT_LE(sizeof(ForwardParams), 4'096u);
  EXPECT_EQ(alignof(ForwardParams), 64u) << "tensor maps in parameters stand at multiples of 64 bytes";
}

}  // namespace
}  // namespace tandem
