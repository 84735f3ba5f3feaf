#include "ops/softmax/kernels.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "device/cpu/parallel.h"
#include "ops/guarded_buffer.h"

namespace plimsoll::cpu {
namespace {

struct Reference {
  std::vector<double> y, dx;
};

Reference reference(std::int64_t rows, std::int64_t width, const GuardedBuffer& x, const GuardedBuffer& dy) {
  const auto n = static_cast<std::size_t>(rows), w = static_cast<std::size_t>(width);
  Reference r{std::vector<double>(n * w), std::vector<double>(n * w)};
  for (std::size_t begin = 0; begin < n * w; begin += w) {
    double top = -1e300, sum = 0, dot = 0;
    for (std::size_t i = begin; i < begin + w; ++i) top = std::max(top, double{x.data()[i]});
    for (std::size_t i = begin; i < begin + w; ++i) sum += r.y[i] = std::exp(x.data()[i] - top);
    for (std::size_t i = begin; i < begin + w; ++i) dot += (r.y[i] /= sum) * dy.data()[i];
    for (std::size_t i = begin; i < begin + w; ++i) r.dx[i] = r.y[i] * (dy.data()[i] - dot);
  }
  return r;
}

class Softmax : public testing::TestWithParam<std::tuple<std::int64_t, std::int64_t>> {};

TEST_P(Softmax, AgreesWithFp64ReferenceForAnyTeam) {
  const auto [rows, width] = GetParam();
  GuardedBuffer x(rows * width), dy(rows * width), y(rows * width), dx(rows * width), y2(rows * width), dx2(rows * width);
  fill_random(x, 1);
  fill_random(dy, 2);
  for (std::int64_t i = 0; i < x.size(); ++i) x.data()[i] *= 20;
  set_thread_count(1);
  softmax_forward(rows, width, x.data(), y.data());
  softmax_backward(rows, width, y.data(), dy.data(), dx.data());
  set_thread_count(2);
  softmax_forward(rows, width, x.data(), y2.data());
  softmax_backward(rows, width, y2.data(), dy.data(), dx2.data());
  const Reference expected = reference(rows, width, x, dy);
  EXPECT_LT(largest_error(y, expected.y), 1e-6);
  EXPECT_LT(largest_difference(dx, expected.dx), 1e-6);  // y and dy are at most 1, and the terms of dx cancel
  EXPECT_TRUE(y == y2 && dx == dx2);
  softmax_forward(rows, width, x.data(), x.data());
  softmax_backward(rows, width, y.data(), dy.data(), dy.data());
  EXPECT_TRUE(x == y && dy == dx);
  EXPECT_TRUE(x.intact() && y.intact() && y2.intact() && dx.intact() && dx2.intact() && dy.intact());
}

const auto kRowsByWidth = [](const auto& test) {
  return "r" + std::to_string(std::get<0>(test.param)) + "w" + std::to_string(std::get<1>(test.param));
};
INSTANTIATE_TEST_SUITE_P(Shapes, Softmax,
                         testing::Combine(testing::Values<std::int64_t>(1, 7, 65, 300),
                                          testing::Values<std::int64_t>(1, 5, 16, 64, 100, 768, 1600)),
                         kRowsByWidth);

// The maximum of a row is 0, so its other elements show exp itself, over all arguments that softmax has.
TEST(Exp, IsWithinTwoUnitsOfTheLastPlace) {
  for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) {
    hwy::SetSupportedTargetsForTest(left & -left);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    SCOPED_TRACE(hwy::TargetName(left & -left));
    constexpr std::int64_t kCount = 200000;
    GuardedBuffer x(2 * kCount), y(2 * kCount);
    double worst = 0;
    for (std::int64_t i = 0; i < kCount; ++i) {
      x.data()[2 * i] = 0;
      x.data()[2 * i + 1] = -87.0f * static_cast<float>(i) / kCount;
    }
    softmax_forward(kCount, 2, x.data(), y.data());
    for (std::int64_t i = 0; i < kCount; ++i) {
      // y = e / (1 + e) has e's relative error at least where e is small; the division and the sum add at most 1.5 units.
      const double e = std::exp(double{x.data()[2 * i + 1]}), expected = e / (1 + e);
      worst = std::max(worst, std::abs(y.data()[2 * i + 1] - expected) / (expected * 0x1p-23));
    }
    EXPECT_LT(worst, 3);
    RecordProperty("worst_units", std::to_string(worst));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(SoftmaxRow, InfinitiesAndNanAreNotHidden) {
  const float infinity = HUGE_VALF;
  GuardedBuffer x(40), y(40);
  std::fill(x.data(), x.data() + 40, 1.0f);
  x.data()[3] = -infinity;
  softmax_forward(1, 40, x.data(), y.data());
  EXPECT_EQ(y.data()[3], 0);
  EXPECT_NEAR(y.data()[39], 1.0 / 39, 1e-7);
  x.data()[3] = std::nanf("");
  softmax_forward(1, 40, x.data(), y.data());
  EXPECT_TRUE(std::isnan(y.data()[0]) && std::isnan(y.data()[39]));
}

}  // namespace
}  // namespace plimsoll::cpu
