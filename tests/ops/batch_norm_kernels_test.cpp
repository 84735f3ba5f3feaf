#include "ops/batch_norm/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "data/sample_source.h"
#include "ops/kernel_buffers.h"

namespace plimsoll::cpu {
namespace {

static_assert(ops::kAbsentRow == kAbsentSample);

constexpr float kEpsilon = 1e-5f;
const ConstElements kNone{static_cast<const std::byte*>(nullptr), DType::f32};

std::int64_t rows_of(const BatchNormShape& s) { return s.groups * s.samples * s.values; }
std::int64_t elements_of(const BatchNormShape& s) { return rows_of(s) * s.channels; }

struct Operands {
  BatchNormShape shape;
  Floats x, dy, gamma, beta;
  std::vector<std::uint32_t> ids;

  explicit Operands(const BatchNormShape& s)
      : shape(s),
        x(random_floats(elements_of(s), 1, 2)),
        dy(random_floats(elements_of(s), 2)),
        gamma(random_floats(s.channels, 3)),
        beta(random_floats(s.channels, 4)),
        ids(static_cast<std::size_t>(2 * s.groups * s.samples), 7) {}

  void drop(std::int64_t sample) {
    ids[static_cast<std::size_t>(2 * sample)] = ids[static_cast<std::size_t>(2 * sample) + 1] = kAbsentSample;
  }
  BatchNormTerms terms(const BatchNormShape& of, std::int64_t first_group) const {
    return {of, kEpsilon, ops::NormActivation::relu, gamma.data(), beta.data(), ids.data() + 2 * first_group * shape.samples};
  }
};

struct Results {
  Floats y, statistics, dx, sums;  // sums: of gamma and beta

  explicit Results(const BatchNormShape& s)
      : y(elements_of(s)), statistics(2 * s.groups * s.channels), dx(elements_of(s)), sums(2 * s.channels) {}
  bool operator==(const Results&) const = default;

  // Runs some groups, from `first` on; `add`: to the sums.
  void run(const Operands& in, std::int64_t first, std::int64_t groups, bool add) {
    BatchNormShape some = in.shape;
    some.groups = groups;
    const std::int64_t channels = some.channels, skipped = first * some.samples * some.values * channels;
    const BatchNormTerms terms = in.terms(some, first);
    const Bytes bytes = std::max(batch_norm_forward_scratch(some), batch_norm_backward_scratch(some, true, true));
    Guarded<double> scratch(bytes.n / 8 + 1);
    float* moments = statistics.data() + 2 * first * channels;
    batch_norm_forward(terms, in.x.data() + skipped, kNone, y.data() + skipped, moments, scratch.bytes());
    const BatchNormGradients made{
        dx.data() + skipped, {static_cast<std::byte*>(nullptr), DType::f32}, sums.data(), sums.data() + channels, add};
    batch_norm_backward(terms, in.dy.data() + skipped, in.x.data() + skipped, kNone, {moments, moments + channels, 2 * channels},
                        /*fixed=*/false, made, scratch.bytes());
  }
};

Results run(const Operands& in) {
  Results results(in.shape);
  results.run(in, 0, in.shape.groups, false);
  return results;
}

// Mean and biased variance of a channel over rows with samples, in long double.
struct Moment {
  double mean, variance;
};
Moment moment_of(const Operands& in, std::int64_t group, std::int64_t channel) {
  const auto& s = in.shape;
  const std::int64_t rows = s.samples * s.values;
  std::vector<long double> values;
  for (std::int64_t row = group * rows; row < (group + 1) * rows; ++row) {
    const bool absent = in.ids[static_cast<std::size_t>(2 * (row / s.values))] == kAbsentSample;
    if (!absent) values.push_back(in.x[row * s.channels + channel]);
  }
  long double sum = 0, squares = 0;
  for (const long double v : values) sum += v;
  const long double mean = values.empty() ? 0 : sum / static_cast<long double>(values.size());
  for (const long double v : values) squares += (v - mean) * (v - mean);
  return {static_cast<double>(mean), values.empty() ? 0 : static_cast<double>(squares / static_cast<long double>(values.size()))};
}

void expect_exact_statistics(const Operands& in, const Results& results, double tolerance) {
  const std::int64_t channels = in.shape.channels;
  for (std::int64_t group = 0; group < in.shape.groups; ++group) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const Moment expected = moment_of(in, group, c);
      const float mean = results.statistics[2 * group * channels + c],
                  variance = results.statistics[(2 * group + 1) * channels + c];
      ASSERT_NEAR(mean, expected.mean, tolerance * (std::abs(expected.mean) + std::sqrt(expected.variance))) << group << " " << c;
      ASSERT_NEAR(variance, expected.variance, tolerance * expected.variance) << group << " " << c;
    }
  }
}

// A sum of squares in fp32 less the square of the mean would have no correct digit.
TEST(BatchNormKernels, StatisticsAreExactWhereTheMeanIsFarAboveTheDeviation) {
  on_every_target([] {
    for (const float mean : {0.0f, 30.0f, -3000.0f}) {
      Operands in({3, 4, 50, 5});
      for (std::int64_t i = 0; i < in.x.size(); ++i) in.x[i] += mean * static_cast<float>(1 + i % 5);
      expect_exact_statistics(in, run(in), 1e-6);
    }
  });
}

// Groups of more rows than the smallest pieces hold, and channels in several blocks.
TEST(BatchNormKernels, ManyPiecesAreOneSum) {
  for (const BatchNormShape& shape : {BatchNormShape{1, 3, 400000, 1}, {1, 2, 40001, 33}, {1, 5, 1001, 515}}) {
    Operands in(shape);
    in.drop(1);
    expect_same_on_threads([&] { return run(in).y; });
    expect_exact_statistics(in, run(in), 1e-6);
  }
}

// As many groups at once as fit into caches, and the same groups one by one.
TEST(BatchNormKernels, ACallOfSeveralGroupsIsSeveralCalls) {
  on_every_target([] {
    for (const BatchNormShape& shape : {BatchNormShape{5, 3, 7, 9}, {300, 1, 2, 300}, {3, 2, 5000, 64}}) {
      Operands in(shape);
      in.drop(0), in.drop(shape.groups * shape.samples - 1);
      Results apart(shape);
      for (std::int64_t group = 0; group < shape.groups; ++group) apart.run(in, group, 1, group > 0);
      EXPECT_TRUE(run(in) == apart);
    }
  });
}

TEST(BatchNormKernels, AbsentRowsDoNotCountAndAreZeros) {
  Operands in({2, 4, 9, 20});
  for (const std::int64_t sample : {0, 2, 4, 5, 6, 7}) in.drop(sample);
  const std::int64_t of_sample = in.shape.values * in.shape.channels;
  for (const std::int64_t sample : {0, 2}) in.x[sample * of_sample] = NAN;
  const Results results = run(in);
  expect_exact_statistics(in, results, 1e-6);
  for (std::int64_t sample = 0; sample < 8; ++sample) {
    double most = 0;
    for (std::int64_t i = sample * of_sample; i < (sample + 1) * of_sample; ++i) {
      most = std::max({most, double{std::abs(results.y[i])}, double{std::abs(results.dx[i])}});
    }
    EXPECT_EQ(most > 0, sample == 1 || sample == 3) << sample;
  }
}

struct Running {
  std::vector<float> mean, variance;
};

// A window of samples with one value per channel and sample in calls of `groups` groups; the running statistics after it.
Running after_window(const Operands& in, std::int64_t groups, double momentum, const Running& before) {
  const std::int64_t channels = in.shape.channels;
  const Results results = run(in);
  std::vector<double> sums(static_cast<std::size_t>(2 * channels + 1), -1);
  for (std::int64_t first = 0; first < in.shape.groups; first += groups) {
    BatchNormShape some = in.shape;
    some.groups = groups;
    pool_statistics(some, results.statistics.data() + 2 * first * channels, in.ids.data() + 2 * first * some.samples,
                    before.mean.data(), first > 0, sums.data());
  }
  Running running = before;
  move_statistics(channels, sums.data(), momentum, running.mean.data(), running.variance.data());
  return running;
}

// torch.nn.BatchNorm: running = (1 - momentum) running + momentum batch, with the variance over n - 1.
TEST(BatchNormKernels, AWindowMovesTheRunningStatisticsAsOneBatch) {
  Operands in({12, 2, 3, 5});
  in.drop(3), in.drop(8), in.drop(9);  // the last two are a whole group
  Operands window({1, 24, 3, 5});
  std::copy_n(in.x.data(), in.x.size(), window.x.data());
  window.ids = in.ids;
  const Running before{{0.5f, -1, 0, 2, 100}, {1, 2, 0.25f, 1, 3}};
  const Running moved = after_window(in, 12, 0.1, before);
  const double n = 21 * 3;
  for (std::int64_t c = 0; c < 5; ++c) {
    const auto at = static_cast<std::size_t>(c);
    const Moment batch = moment_of(window, 0, c);
    EXPECT_NEAR(moved.mean[at], 0.9 * before.mean[at] + 0.1 * batch.mean, 1e-6 * (1 + std::abs(before.mean[at])));
    EXPECT_NEAR(moved.variance[at], 0.9 * before.variance[at] + 0.1 * batch.variance * n / (n - 1), 4e-6 * before.variance[at]);
  }
  for (const std::int64_t groups : {1, 3, 4, 6}) {
    const Running cut = after_window(in, groups, 0.1, before);
    EXPECT_EQ(cut.mean, moved.mean) << groups;
    EXPECT_EQ(cut.variance, moved.variance) << groups;
  }
}

TEST(BatchNormKernels, AWindowOfOneValueOrNoneMovesNothing) {
  Operands in({2, 2, 1, 3});
  in.drop(0), in.drop(2), in.drop(3);
  const Running before{{1, 2, 3}, {4, 5, 6}};
  EXPECT_EQ(after_window(in, 1, 0.1, before).mean, before.mean);
  EXPECT_EQ(after_window(in, 1, 0.1, before).variance, before.variance);
  in.drop(1);
  EXPECT_EQ(after_window(in, 2, 0.1, before).mean, before.mean);
  EXPECT_EQ(after_window(in, 2, 0.1, before).variance, before.variance);
}

}  // namespace
}  // namespace plimsoll::cpu
