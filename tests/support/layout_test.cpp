#include "support/layout.hpp"

#include <gtest/gtest.h>

#include <set>

#include "support/random.hpp"
#include "support/tensor.hpp"
#include "support/values.hpp"

namespace tandem::testing {
namespace {

constexpr Shape kShapes[] = {{2, 5, 3, 8}, {1, 1, 4, 16}, {3, 1, 1, 1}, {1, 7, 1, 24}, {2, 0, 3, 8}, {0, 4, 2, 8}};

TEST(Layouts, ElementsLieInsideTheBufferAndApartUnlessExpanded) {
  for (const Layout layout : all_layouts()) {
    for (const Shape& shape : kShapes) {
      const Placement placement = place(layout, shape);
      std::set<std::int64_t> seen;
      std::int64_t count = 0;
      for (std::int64_t b = 0; b < shape[0]; ++b) {
        for (std::int64_t s = 0; s < shape[1]; ++s) {
          for (std::int64_t h = 0; h < shape[2]; ++h) {
            for (std::int64_t d = 0; d < shape[3]; ++d) {
              const std::int64_t element = placement.element(b, s, h, d);
              ASSERT_GE(element, 0) << name_of(layout);
              ASSERT_LT(element, placement.buffer_elements) << name_of(layout);
              seen.insert(element);
              ++count;
            }
          }
        }
      }
      if (!is_expanded(layout)) {
        EXPECT_EQ(std::ssize(seen), count) << name_of(layout);
      }
    }
  }
}

TEST(Layouts, ATensorHoldsTheSameValuesInEveryLayout) {
  const Shape shape{2, 5, 3, 8};
  Random random(3);
  HostTensor contiguous(ElementType::bf16, shape, Layout::bshd);
  contiguous.set(make_values(ValueKind::normal, shape, random));
  for (const Layout layout : all_layouts()) {
    if (is_expanded(layout)) continue;
    HostTensor tensor(ElementType::bf16, shape, layout);
    tensor.set(contiguous.values());
    EXPECT_EQ(tensor.values().data, contiguous.values().data) << name_of(layout);
    EXPECT_EQ(tensor.damaged_bytes(), 0) << name_of(layout);
  }
}

TEST(Layouts, DamageBetweenElementsIsCounted) {
  HostTensor tensor(ElementType::fp16, {1, 2, 2, 8}, Layout::padded_rows);
  EXPECT_EQ(tensor.damaged_bytes(), 0);
  tensor.bytes()[2 * 8] = std::byte{0};  // the first element of padding
  EXPECT_EQ(tensor.damaged_bytes(), 1);
}

}  // namespace
}  // namespace tandem::testing
