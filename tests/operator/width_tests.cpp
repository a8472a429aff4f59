// Contract 9: large counts and 64-bit offsets.
#include <fmt/format.h>

#include <cstring>

#include "api/validate.hpp"
#include "operator/operator_tests.hpp"

namespace tandem::testing {
namespace {

TEST_P(OperatorTest, BC99_MoreBatchEntriesThan65535) {
  for (const bool causal : {false, true}) {
    const ForwardProblem p = make_problem(types().front(), {.batch = 70'000, .seqlen_q = 2, .seqlen_k = 3, .num_heads = 1, .head_dim = 8, .causal = causal});
    if (!fits(p)) GTEST_SKIP() << "beyond this backend's limits";
    expect_right(usual(p));
  }
}

TEST_P(OperatorTest, BC99_MoreHeadsThan65535) {
  for (const std::int64_t heads_kv : {1, 70'000}) {
    const ForwardProblem p = make_problem(types().front(), {.seqlen_q = 1, .seqlen_k = 3, .num_heads = 70'000, .num_heads_kv = heads_kv, .head_dim = 8});
    if (!fits(p)) GTEST_SKIP() << "beyond this backend's limits";
    expect_right(usual(p));
  }
}

// Memory in which the elements of a small tensor lie far apart. Only the rows of the tensor are ever touched.
class FarTensor {
 public:
  FarTensor(TestDevice& device, const HostTensor& contiguous, const std::array<std::int64_t, 4>& stride) : device_(device), contiguous_(contiguous) {
    tensor_ = contiguous.view(nullptr);
    tensor_.stride = stride;
    tensor_.data = device.allocate_untouched(bytes_of(contiguous, stride));
  }
  ~FarTensor() {
    if (tensor_.data != nullptr) device_.free(tensor_.data);
  }
  FarTensor(const FarTensor&) = delete;
  FarTensor& operator=(const FarTensor&) = delete;

  static std::size_t bytes_of(const HostTensor& tensor, const std::array<std::int64_t, 4>& stride) {
    std::int64_t last = 0;
    for (std::size_t axis = 0; axis < 4; ++axis) last += (tensor.shape()[axis] - 1) * stride[axis];
    return static_cast<std::size_t>((last + 1) * size_of(tensor.type()));
  }

  const Tensor& view() const { return tensor_; }

  void upload() {
    for_each_row([&](void* far, std::size_t at, std::size_t bytes) { device_.upload(far, contiguous_.bytes().data() + at, bytes); });
  }
  HostTensor download() const {
    HostTensor result = contiguous_;
    for_each_row([&](void* far, std::size_t at, std::size_t bytes) { device_.download(result.bytes().data() + at, far, bytes); });
    return result;
  }

 private:
  template <class Visit>
  void for_each_row(Visit&& visit) const {
    const Shape& shape = contiguous_.shape();
    const std::int64_t element = size_of(contiguous_.type());
    const auto row_bytes = static_cast<std::size_t>(shape[3] * element);
    std::size_t at = 0;
    for (std::int64_t b = 0; b < shape[0]; ++b) {
      for (std::int64_t s = 0; s < shape[1]; ++s) {
        for (std::int64_t h = 0; h < shape[2]; ++h, at += row_bytes) {
          visit(static_cast<std::byte*>(tensor_.data) + (b * tensor_.stride[0] + s * tensor_.stride[1] + h * tensor_.stride[2]) * element, at, row_bytes);
        }
      }
    }
  }

  TestDevice& device_;
  HostTensor contiguous_;
  Tensor tensor_;
};

// BC-57 is the same for batch strides of a cache.
TEST_P(OperatorTest, BC97_OffsetsBeyond32Bits) {
  constexpr std::int64_t kFar = (std::int64_t{1} << 31) + 64;  // elements
  for (const ElementType type : types()) {
    // Batch, sequence and head stride in turn.
    for (const std::size_t axis : {0u, 1u, 2u}) {
      const ForwardProblem p = make_problem(type, {.batch = axis == 0 ? 3 : 1, .seqlen_q = 3, .seqlen_k = 3, .num_heads = axis == 2 ? 3 : 1, .causal = true});
      const ForwardCase c = usual(p);
      const ForwardInputs inputs = make_inputs(c);
      HostTensor out(type, out_shape(p), Layout::bshd);
      const auto far_stride = [&](const HostTensor& tensor) {
        std::array<std::int64_t, 4> stride = tensor.placement().stride;
        stride[axis] = kFar;
        return stride;
      };
      if (4 * FarTensor::bytes_of(inputs.q, far_stride(inputs.q)) > limits().max_untouched_bytes) GTEST_SKIP() << "beyond this backend's limits";
      FarTensor q(device(), inputs.q, far_stride(inputs.q)), k(device(), inputs.k, far_stride(inputs.k)), v(device(), inputs.v, far_stride(inputs.v)),
          far_out(device(), out, far_stride(out));
      for (const FarTensor* tensor : {&q, &k, &v, &far_out}) {
        if (tensor->view().data == nullptr) GTEST_SKIP() << "this machine does not lend that much address space";
      }
      q.upload();
      k.upload();
      v.upload();
      far_out.upload();

      ForwardCall call;
      call.q = q.view();
      call.k = k.view();
      call.v = v.view();
      call.out = far_out.view();
      call.softmax_scale = c.softmax_scale;
      const Status supported = backend().supports(p, call);
      if (refused(c, supported, !supported.ok())) continue;
      auto executable = backend().prepare_forward(p);
      ASSERT_TRUE(executable.ok()) << executable.status().message();
      const DeviceBuffer memory(device(), executable.value()->workspace_size());
      const Workspace workspace{memory.data(), memory.bytes()};
      if (memory.bytes() != 0) {
        ASSERT_TRUE(executable.value()->init_workspace(workspace, device().stream()).ok());
      }
      const Status status = executable.value()->run(call, workspace, device().stream());
      ASSERT_TRUE(status.ok()) << status.message();
      device().synchronize();

      const auto expected = run(c, inputs);
      ASSERT_NE(expected, nullptr);
      EXPECT_EQ(far_out.download().bits(), expected->bits) << describe(c) << " far along axis " << axis;
    }
  }
}

}  // namespace
}  // namespace tandem::testing
