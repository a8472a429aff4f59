// Which tensors TMA can address, and the sentence for each that it cannot.
#include "backends/hopper/layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

void* address(std::uintptr_t value) { return reinterpret_cast<void*>(value); }

Tensor contiguous() { return {.data = address(1 << 20), .shape = {2, 100, 4, 64}, .stride = {25'600, 256, 64, 1}}; }

TEST(Layout, AcceptsWhatTmaAddresses) {
  EXPECT_EQ(layout_refusal("q", contiguous()), "");

  Tensor heads_first = contiguous();
  heads_first.stride = {25'600, 64, 6'400, 1};
  EXPECT_EQ(layout_refusal("q", heads_first), "");

  Tensor slice_of_packed = contiguous();
  slice_of_packed.stride = {100 * 3 * 256, 3 * 256, 64, 1};
  EXPECT_EQ(layout_refusal("q", slice_of_packed), "");

  Tensor expanded = contiguous();
  expanded.stride[0] = expanded.stride[2] = 0;
  EXPECT_EQ(layout_refusal("q", expanded), "");

  Tensor without_address = contiguous();
  without_address.data = nullptr;
  EXPECT_EQ(layout_refusal("q", without_address), "");
}

TEST(Layout, IgnoresTheStridesOfAxesOfLengthOne) {
  for (std::size_t axis = 0; axis < 4; ++axis)
    for (const std::int64_t stride : {std::int64_t{-7}, std::int64_t{0}, std::int64_t{3}, std::int64_t{1} << 50}) {
      Tensor tensor = contiguous();
      tensor.shape[axis] = 1;
      tensor.stride[axis] = stride;
      EXPECT_EQ(layout_refusal("q", tensor), "") << "axis " << axis << " stride " << stride;
    }
}

TEST(Layout, RefusesAMisalignedAddress) {
  Tensor tensor = contiguous();
  tensor.data = address((1 << 20) + 6);
  EXPECT_THAT(layout_refusal("v", tensor), AllOf(StartsWith("v starts at address 0x100006"), HasSubstr("6 bytes past"), HasSubstr("16")));
}

TEST(Layout, RefusesALastAxisThatIsNotContiguous) {
  Tensor tensor = contiguous();
  tensor.stride = {25'600, 256, 1, 4};
  EXPECT_THAT(layout_refusal("k", tensor), AllOf(StartsWith("k has stride 4 along its last axis"), HasSubstr("need 1")));
}

TEST(Layout, RefusesStridesThatAreNotMultiplesOf16Bytes) {
  const char* axes[] = {"batch", "seqlen", "heads"};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    Tensor tensor = contiguous();
    tensor.stride[axis] += 4;
    const std::string stride = std::to_string(tensor.stride[axis]);
    EXPECT_THAT(layout_refusal("out", tensor), AllOf(StartsWith("out has stride " + stride + " along " + axes[axis]), HasSubstr("multiples of 16 bytes")));
  }
}

TEST(Layout, RefusesStridesOutsideTheRangeOfATensorMap) {
  Tensor tensor = contiguous();
  tensor.stride[0] = std::int64_t{1} << 39;  // elements: 2^40 bytes
  EXPECT_THAT(layout_refusal("q", tensor), AllOf(StartsWith("q has stride 549755813888 along batch"), HasSubstr("2^40")));
  tensor.stride[0] -= 8;
  EXPECT_EQ(layout_refusal("q", tensor), "");
  tensor.stride[1] = -256;
  EXPECT_THAT(layout_refusal("q", tensor), AllOf(StartsWith("q has stride -256 along seqlen"), HasSubstr("0 to 2^40")));
}

TEST(Layout, NamesTheTensorOfTheCallThatIsToBlame) {
  Tensor ForwardCall::*const tensors[] = {&ForwardCall::q, &ForwardCall::k, &ForwardCall::v, &ForwardCall::out};
  const char* names[] = {"q ", "k ", "v ", "out "};
  std::set<std::string> sentences;
  for (std::size_t i = 0; i < 4; ++i) {
    ForwardCall call{.q = contiguous(), .k = contiguous(), .v = contiguous(), .out = contiguous()};
    EXPECT_EQ(layout_refusal(call), "");
    (call.*tensors[i]).stride[2] = 65;
    EXPECT_THAT(layout_refusal(call), StartsWith(names[i]));
    sentences.insert(layout_refusal(call));
  }
  EXPECT_EQ(sentences.size(), 4u);
}

}  // namespace
}  // namespace tandem
