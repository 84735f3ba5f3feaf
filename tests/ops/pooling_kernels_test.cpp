#include "ops/pooling/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace plimsoll::cpu {
namespace {

struct Pooled {
  std::vector<float> y;
  std::vector<std::uint8_t> places;
};

// The 3 x 3 windows of one image of 3 x 3 pixels, padded on all sides.
Pooled pool(const std::vector<float>& x) {
  const PoolShape shape{1, 3, 3, 1, 3, 3, ops::square_window(2, 1)};
  Pooled pooled{std::vector<float>(4), std::vector<std::uint8_t>(4)};
  max_pool(shape, x.data(), pooled.y.data(), pooled.places.data());
  return pooled;
}

TEST(MaxPool, TheFirstOfEqualMaximaWins) {
  const Pooled pooled = pool(std::vector<float>(9, 2));
  EXPECT_EQ(pooled.y, std::vector<float>(4, 2));
  EXPECT_EQ(pooled.places, (std::vector<std::uint8_t>{4, 3, 1, 0}));  // the first pixel inside
}

TEST(MaxPool, PaddingNeverWins) {
  constexpr float kLow = -std::numeric_limits<float>::infinity();
  const Pooled pooled = pool({kLow, kLow, -3, kLow, kLow, kLow, -2, kLow, -1});
  EXPECT_EQ(pooled.y, (std::vector<float>{kLow, -3, -2, -1}));
  EXPECT_EQ(pooled.places, (std::vector<std::uint8_t>{4, 4, 4, 4}));
}

TEST(MaxPool, NaNIsLargerThanAnyNumber) {
  const float nan = std::nanf("");
  const Pooled pooled = pool({1, nan, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_TRUE(std::isnan(pooled.y[0]) && std::isnan(pooled.y[1]));
  EXPECT_EQ(pooled.places[0], 5);
  EXPECT_EQ(pooled.places[1], 3);
  EXPECT_EQ(pooled.y[3], 9);
}

TEST(MaxPool, OverlappingWindowsAddTheirGradients) {
  const PoolShape shape{1, 3, 3, 1, 2, 2, ops::square_window(1)};
  const std::vector<float> x{1, 2, 3, 4, 9, 5, 6, 7, 8}, dy{1, 10, 100, 1000};
  std::vector<float> y(4), dx(9, -1);
  std::vector<std::uint8_t> places(4);
  max_pool(shape, x.data(), y.data(), places.data());
  max_pool_backward(shape, dy.data(), places.data(), dx.data());
  EXPECT_EQ(dx, (std::vector<float>{0, 0, 0, 0, 1111, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace plimsoll::cpu
