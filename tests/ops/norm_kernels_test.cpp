#include "ops/norm/kernels.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "device/cpu/parallel.h"
#include "ops/guarded_buffer.h"
#include "tensor/half.h"

namespace plimsoll::cpu {
namespace {

constexpr float kEpsilon = 1e-5f;

struct Inputs {
  std::int64_t rows, width;
  GuardedBuffer x, dy, gamma, beta;

  Inputs(std::int64_t rows, std::int64_t width)
      : rows(rows), width(width), x(rows * width), dy(rows * width), gamma(width), beta(width) {
    std::uint32_t stream = 1;
    for (GuardedBuffer* buffer : {&x, &dy, &gamma, &beta}) fill_random(*buffer, stream++);
    for (std::int64_t i = 0; i < rows * width; ++i) x.data()[i] += 3;  // a mean that one-pass formulas would suffer from
  }
};

struct Results {
  GuardedBuffer y, mean, rstd, dx, dgamma, dbeta;

  explicit Results(const Inputs& in)
      : y(in.rows * in.width), mean(in.rows), rstd(in.rows), dx(in.rows * in.width), dgamma(in.width), dbeta(in.width) {}
  bool operator==(const Results&) const = default;
};

Results run(const Inputs& in, int threads, bool accumulate = false) {
  set_thread_count(threads);
  Results r(in);
  GuardedBuffer scratch(layer_norm_backward_scratch(in.rows, in.width).n / 4);
  if (accumulate) {
    std::fill(r.dgamma.data(), r.dgamma.data() + in.width, 100.0f);
    std::fill(r.dbeta.data(), r.dbeta.data() + in.width, -50.0f);
  }
  layer_norm_forward(in.rows, in.width, kEpsilon, in.x.data(), in.gamma.data(), in.beta.data(), r.y.data(), r.mean.data(),
                     r.rstd.data());
  layer_norm_backward(in.rows, in.width, in.dy.data(), in.x.data(), r.mean.data(), r.rstd.data(), in.gamma.data(), r.dx.data(),
                      r.dgamma.data(), r.dbeta.data(), accumulate, scratch.bytes());
  const std::vector<const GuardedBuffer*> buffers{&in.x,   &in.dy, &in.gamma, &in.beta, &r.y,    &r.mean,
                                                  &r.rstd, &r.dx,  &r.dgamma, &r.dbeta, &scratch};
  for (const GuardedBuffer* buffer : buffers) EXPECT_TRUE(buffer->intact());
  EXPECT_TRUE(scratch.last_line_written());
  return r;
}

TEST(LayerNormKernels, Bf16IsFp32Rounded) {
  for (const auto& [rows, width] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {5, 33}, {67, 768}}) {
    const Inputs in(rows, width);
    const Results exact = run(in, 2);
    Results r(in);
    std::vector<std::uint16_t> y(static_cast<std::size_t>(rows * width));
    layer_norm_forward(rows, width, kEpsilon, in.x.data(), in.gamma.data(), in.beta.data(), y.data(), r.mean.data(),
                       r.rstd.data());
    EXPECT_TRUE(r.mean == exact.mean && r.rstd == exact.rstd);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < y.size(); ++i) wrong += y[i] != narrow_bf16(exact.y.data()[i]);
    EXPECT_EQ(wrong, 0U) << rows << " x " << width;
  }
}

struct Reference {
  std::vector<double> y, mean, rstd, dx, dgamma, dbeta;
};

Reference reference(const Inputs& in) {
  const auto rows = static_cast<std::size_t>(in.rows), width = static_cast<std::size_t>(in.width);
  Reference r{std::vector<double>(rows * width), std::vector<double>(rows),  std::vector<double>(rows),
              std::vector<double>(rows * width), std::vector<double>(width), std::vector<double>(width)};
  for (std::size_t i = 0; i < rows; ++i) {
    const float *x = in.x.data() + i * width, *dy = in.dy.data() + i * width;
    double mean = 0, variance = 0, gradient = 0, projection = 0;
    for (std::size_t c = 0; c < width; ++c) mean += x[c] / static_cast<double>(width);
    for (std::size_t c = 0; c < width; ++c) variance += (x[c] - mean) * (x[c] - mean) / static_cast<double>(width);
    const double rstd = 1 / std::sqrt(variance + double{kEpsilon});
    const auto hat = [&](std::size_t c) { return (x[c] - mean) * rstd; };
    for (std::size_t c = 0; c < width; ++c) {
      const double scaled = double{dy[c]} * in.gamma.data()[c];
      gradient += scaled / static_cast<double>(width);
      projection += scaled * hat(c) / static_cast<double>(width);
      r.dgamma[c] += dy[c] * hat(c);
      r.dbeta[c] += dy[c];
      r.y[i * width + c] = hat(c) * in.gamma.data()[c] + in.beta.data()[c];
    }
    for (std::size_t c = 0; c < width; ++c) {
      r.dx[i * width + c] = rstd * (double{dy[c]} * in.gamma.data()[c] - gradient - hat(c) * projection);
    }
    r.mean[i] = mean;
    r.rstd[i] = rstd;
  }
  return r;
}

void expect_agreement(const Results& r, const Reference& expected) {
  EXPECT_LT(largest_error(r.y, expected.y), 2e-6);
  EXPECT_LT(largest_error(r.mean, expected.mean), 1e-6);
  EXPECT_LT(largest_error(r.rstd, expected.rstd), 1e-6);
  EXPECT_LT(largest_error(r.dx, expected.dx), 5e-6);
  EXPECT_LT(largest_error(r.dgamma, expected.dgamma), 5e-6);
  EXPECT_LT(largest_error(r.dbeta, expected.dbeta), 2e-6);
}

class LayerNorm : public testing::TestWithParam<std::tuple<std::int64_t, std::int64_t>> {
 protected:
  Inputs in_{std::get<0>(GetParam()), std::get<1>(GetParam())};
};

TEST_P(LayerNorm, AgreesWithFp64Reference) {
  if (in_.width == 1) {  // the variance is 0 and y is beta
    const Results r = run(in_, 2);
    for (std::int64_t i = 0; i < in_.rows; ++i) {
      EXPECT_EQ(r.y.data()[i], in_.beta.data()[0]);
      EXPECT_EQ(r.dx.data()[i], 0);
    }
    return;
  }
  expect_agreement(run(in_, 2), reference(in_));
}

TEST_P(LayerNorm, BitsDoNotDependOnThreads) { EXPECT_TRUE(run(in_, 1) == run(in_, 2)); }

TEST_P(LayerNorm, AccumulatesOneSum) {
  const Results plain = run(in_, 2), added = run(in_, 2, true);
  for (std::int64_t c = 0; c < in_.width; ++c) {
    ASSERT_EQ(added.dgamma.data()[c], 100.0f + plain.dgamma.data()[c]);
    ASSERT_EQ(added.dbeta.data()[c], -50.0f + plain.dbeta.data()[c]);
  }
}

const auto kRowsByWidth = [](const auto& test) {
  return "r" + std::to_string(std::get<0>(test.param)) + "w" + std::to_string(std::get<1>(test.param));
};
INSTANTIATE_TEST_SUITE_P(Shapes, LayerNorm,
                         testing::Combine(testing::Values<std::int64_t>(1, 7, 64, 65, 256),
                                          testing::Values<std::int64_t>(1, 5, 64, 384, 768, 1600)),
                         kRowsByWidth);

TEST(LayerNormInPlace, GradientMayOverwriteWhatItReads) {
  Inputs in(70, 40);
  const Results plain = run(in, 2);
  GuardedBuffer scratch(layer_norm_backward_scratch(in.rows, in.width).n / 4), dgamma(in.width), dbeta(in.width);
  layer_norm_backward(in.rows, in.width, in.dy.data(), in.x.data(), plain.mean.data(), plain.rstd.data(), in.gamma.data(),
                      in.dy.data(), dgamma.data(), dbeta.data(), false, scratch.bytes());
  EXPECT_TRUE(in.dy == plain.dx && dgamma == plain.dgamma && dbeta == plain.dbeta);
}

TEST(LayerNormTargets, AllAgreeWithFp64Reference) {
  for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) {
    hwy::SetSupportedTargetsForTest(left & -left);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    SCOPED_TRACE(hwy::TargetName(left & -left));
    const Inputs in(130, 43);
    expect_agreement(run(in, 2), reference(in));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace
}  // namespace plimsoll::cpu
