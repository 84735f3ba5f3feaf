// Thinning: however long the curve, its extremes and its ends stay, and the memory is bounded.
#include "report/thinned.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace plimsoll {
namespace {

TEST(Thinned, AShortCurveStaysAsItIs) {
  Thinned curve(100);
  for (int i = 0; i < 100; ++i) curve.add(i, i % 7);
  const std::vector<DataPoint> points = curve.points();
  ASSERT_EQ(points.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(points[static_cast<std::size_t>(i)].y, i % 7);
}

TEST(Thinned, EveryLengthKeepsItsExtremesAndEnds) {
  std::mt19937 random(5);
  for (const int length : {1, 2, 3, 63, 64, 65, 127, 129, 1000, 4097, 100'000}) {
    SCOPED_TRACE(length);
    Thinned curve(64);
    std::vector<DataPoint> all;
    for (int i = 0; i < length; ++i) {
      all.push_back({static_cast<double>(i), static_cast<double>(random() % 100'000)});
      curve.add(all.back().x, all.back().y);
    }
    const std::vector<DataPoint> points = curve.points();
    EXPECT_LE(points.size(), 2 * 64 + 2U);
    EXPECT_TRUE(std::ranges::is_sorted(points, {}, &DataPoint::x));
    EXPECT_EQ(points.front().x, 0);
    EXPECT_EQ(points.back().x, length - 1);
    EXPECT_EQ(std::ranges::max(points, {}, &DataPoint::y).y, std::ranges::max(all, {}, &DataPoint::y).y);
    EXPECT_EQ(std::ranges::min(points, {}, &DataPoint::y).y, std::ranges::min(all, {}, &DataPoint::y).y);
    for (const DataPoint& point : points) EXPECT_EQ(point.y, all[static_cast<std::size_t>(point.x)].y);
  }
}

TEST(Thinned, ASingleSpikeStaysWhereverItLies) {
  for (const int at : {0, 1, 777, 50'000, 99'998, 99'999}) {
    Thinned curve(50);
    for (int i = 0; i < 100'000; ++i) curve.add(i, i == at ? 9 : 1);
    const std::vector<DataPoint> points = curve.points();
    EXPECT_TRUE(std::ranges::any_of(points, [&](const DataPoint& point) { return point.x == at && point.y == 9; })) << at;
  }
}

TEST(Thinned, NumbersThatAreNotFiniteAreCounted) {
  Thinned curve;
  curve.add(1, 2);
  curve.add(2, std::numeric_limits<double>::quiet_NaN());
  curve.add(3, std::numeric_limits<double>::infinity());
  EXPECT_EQ(curve.points().size(), 1U);
  EXPECT_EQ(curve.left_out(), 2);
  EXPECT_EQ(curve.first_left_out(), 2);
}

TEST(Smoothed, TheFirstValueHasNoPullAndAConstantStays) {
  Smoothed mean(10);
  EXPECT_DOUBLE_EQ(mean.add(5), 5);
  for (int i = 0; i < 100; ++i) EXPECT_NEAR(mean.add(5), 5, 1e-12);
  Smoothed falling(10);
  falling.add(0);
  double last = 0;
  for (int i = 0; i < 10; ++i) last = falling.add(1);
  EXPECT_GT(last, 0.5);
  EXPECT_LT(last, 1);
}

}  // namespace
}  // namespace plimsoll
