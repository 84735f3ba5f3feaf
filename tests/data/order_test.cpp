#include "data/order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "formats/expect_error.h"

namespace plimsoll {
namespace {

TEST(Order, PermutesEveryDomain) {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t n = 1; n <= 70; ++n) sizes.push_back(n);
  for (const std::uint64_t n : {255, 256, 257, 1000, 4095, 4096, 4097, 65537}) sizes.push_back(n);
  for (const std::uint64_t n : sizes) {
    std::vector<bool> seen(n);
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint64_t image = permuted(i, n, 42, 3);
      ASSERT_LT(image, n);
      ASSERT_FALSE(seen[image]) << "n = " << n;
      seen[image] = true;
    }
  }
}

TEST(Order, LargeDomainsStayInside) {
  for (const std::uint64_t n : {(1ull << 32) - 1, (1ull << 40) + 12345, (1ull << 61) + 1}) {
    for (std::uint64_t i = 0; i < 1000; ++i) EXPECT_LT(permuted(n - 1 - i, n, 7, 0), n);
  }
}

TEST(Order, DependsOnSeedAndEpochOnly) {
  const SampleOrder a{OrderKind::shuffled, 1, 1000}, b{OrderKind::shuffled, 2, 1000};
  int same_seed = 0, same_epoch = 0, fixed = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(a.at(i), a.at(i));
    EXPECT_EQ(a.at(i).epoch, 0u);
    EXPECT_EQ(a.at(5000 + i).epoch, 5u);
    same_seed += a.at(i).sample == b.at(i).sample;
    same_epoch += a.at(i).sample == a.at(1000 + i).sample;
    fixed += a.at(i).sample == i;
  }
  EXPECT_LT(same_seed, 10);
  EXPECT_LT(same_epoch, 10);
  EXPECT_LT(fixed, 10);
}

// Chi-squared of where one index goes over many epochs: 63 degrees of freedom, limit at five standard deviations.
TEST(Order, SpreadsEvenly) {
  std::vector<double> hits(64);
  constexpr int kEpochs = 64'000;
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) hits[permuted(17, 64, 9, epoch)] += 1;
  double chi = 0;
  for (const double count : hits) chi += (count - kEpochs / 64.0) * (count - kEpochs / 64.0) / (kEpochs / 64.0);
  EXPECT_LT(chi, 63 + 5 * std::sqrt(2 * 63.0));
}

TEST(Order, Sequential) {
  const SampleOrder order{OrderKind::sequential, 1, 10};
  EXPECT_EQ(order.at(0), (SampleRef{0, 0}));
  EXPECT_EQ(order.at(9), (SampleRef{0, 9}));
  EXPECT_EQ(order.at(10), (SampleRef{1, 0}));
  EXPECT_EQ(order.at(37), (SampleRef{3, 7}));
}

// The order is part of a run's identity: a resumed or repeated run of any version sees the same samples.
TEST(Order, KeepsItsValues) {
  const SampleOrder order{OrderKind::shuffled, 1, 12};
  std::vector<std::uint32_t> samples;
  for (std::int64_t i = 0; i < 12; ++i) samples.push_back(order.at(i).sample);
  EXPECT_EQ(samples, (std::vector<std::uint32_t>{11, 9, 10, 4, 5, 7, 0, 1, 6, 3, 8, 2}));
}

TEST(Samples, CountsAndUnits) {
  const Samples even = make_samples(9, 4, "x");
  EXPECT_EQ(even.count(), 2);
  EXPECT_EQ(even.valid_units(1), 4);
  const Samples ragged = make_samples(10, 4, "x");
  EXPECT_EQ(ragged.count(), 3);
  EXPECT_EQ(ragged.valid_units(2), 1);
  EXPECT_EQ(ragged.length(2), 2);
  EXPECT_EQ(ragged.length(0), 5);
  EXPECT_EQ(make_samples(2, 1024, "x").count(), 1);
  EXPECT_EQ(make_samples(2, 1024, "x").valid_units(0), 1);
  for (std::int64_t tokens = 2; tokens < 60; ++tokens) {
    for (std::int64_t context = 1; context < 12; ++context) {
      const Samples samples = make_samples(tokens, context, "x");
      std::int64_t units = 0;
      for (std::int64_t i = 0; i < samples.count(); ++i) {
        EXPECT_GE(samples.valid_units(i), 1);
        units += samples.valid_units(i);
      }
      EXPECT_EQ(units, tokens - 1) << "every token but the first is predicted once";
    }
  }
  EXPECT_ERROR(make_samples(1, 4, "x"), "E-DATA-SHORT", "1 token");
  EXPECT_ERROR(make_samples(std::int64_t{1} << 34, 4, "x"), "E-DATA-FORMAT", "2^32");
}

}  // namespace
}  // namespace plimsoll
