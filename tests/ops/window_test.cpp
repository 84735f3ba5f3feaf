// The geometry of windows, against the definition: output o reads pixel o stride - before + k.
#include "ops/window.h"

#include <gtest/gtest.h>

namespace plimsoll::ops {
namespace {

TEST(WindowAxis, RangesAreThoseOfTheDefinition) {
  int axes = 0;
  for (const std::int64_t size : {1, 2, 5, 8}) {
    for (const std::int64_t kernel : {1, 2, 3, 7}) {
      for (const std::int64_t stride : {1, 2, 3, 5}) {
        for (const std::int64_t before : {0, 1, 3}) {
          for (const std::int64_t after : {0, 2}) {
            const WindowAxis axis{size, kernel, stride, before, after};
            std::int64_t outputs = 0;
            while (outputs * stride + kernel <= size + before + after) ++outputs;
            ASSERT_EQ(axis.outputs(), outputs);
            const auto inside = [&](std::int64_t o, std::int64_t k) {
              const std::int64_t pixel = o * stride - before + k;
              return pixel >= 0 && pixel < size;
            };
            for (std::int64_t o = 0; o < outputs; ++o) {
              const IndexRange places = axis.inside(o);
              for (std::int64_t k = 0; k < kernel; ++k) ASSERT_EQ(k >= places.begin && k < places.end, inside(o, k));
            }
            for (std::int64_t k = 0; k < kernel; ++k) {
              const IndexRange range = axis.outputs_inside(k);
              for (std::int64_t o = 0; o < outputs; ++o) ASSERT_EQ(o >= range.begin && o < range.end, inside(o, k));
            }
            ++axes;
          }
        }
      }
    }
  }
  EXPECT_EQ(axes, 4 * 4 * 4 * 3 * 2);
}

}  // namespace
}  // namespace plimsoll::ops
