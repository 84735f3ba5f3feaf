#include "graph/roofline.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(Roofline, ProductsTakeTheRateOfTheirOperands) {
  Roofline roofline{.flops_per_second = 1e9, .bytes_per_second = 1e8, .step_seconds = 1};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    EXPECT_EQ(roofline.flops_per_second_of(dtype), 1e9);
    EXPECT_DOUBLE_EQ(roofline_seconds(roofline, {4e9, 1e8, dtype}), 5);
  }
  roofline.bf16_flops_per_second = 2e9;
  roofline.fp16_flops_per_second = 4e9;
  EXPECT_DOUBLE_EQ(roofline_seconds(roofline, {4e9, 1e8}), 5);
  EXPECT_DOUBLE_EQ(roofline_seconds(roofline, {4e9, 1e8, DType::bf16}), 3);
  EXPECT_DOUBLE_EQ(roofline_seconds(roofline, {4e9, 1e8, DType::f16}), 2);
  EXPECT_DOUBLE_EQ(roofline_seconds(roofline, {4e9, 8e8, DType::f16}), 9) << "bytes bind";
}

TEST(Roofline, WhatIsNotKnownBindsNothing) { EXPECT_EQ(roofline_seconds({}, {4e9, 1e8}), 0); }

}  // namespace
}  // namespace plimsoll
