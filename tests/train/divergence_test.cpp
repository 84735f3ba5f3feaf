#include "train/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace plimsoll {
namespace {

struct Course {
  std::vector<std::int64_t> spikes;
  std::int64_t unstable = 0, stopped = 0;  // the first update at which it was
  std::string reason;
};

// A course of losses and norms of 1, both with noise, up to the report of divergence.
Course course(
    std::int64_t updates, std::int64_t warmup, double noise, const std::function<double(std::int64_t)>& loss,
    const std::function<double(std::int64_t)>& norm = [](std::int64_t) { return 1.0; }) {
  DivergenceWatch watch(warmup, 100);
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  Course result;
  for (std::int64_t i = 1; i <= updates && result.stopped == 0; ++i) {
    const auto seen = watch.see(i, loss(i) + noise * normal(random), norm(i) * std::exp(0.1 * normal(random)));
    if (seen.spike) result.spikes.push_back(i);
    if (seen.unstable && result.unstable == 0) result.unstable = i;
    if (!seen.divergence) continue;
    result.stopped = i;
    result.reason = seen.divergence->reason;
  }
  return result;
}

double learned(std::int64_t update) { return 3 + 8 * std::exp2(-static_cast<double>(update) / 200); }

TEST(Divergence, ARunThatLearnsGoesOn) {
  for (const double noise : {0.0, 0.01, 0.1, 0.5}) {
    const Course run = course(5000, 100, noise, learned);
    EXPECT_EQ(run.stopped, 0) << noise << ' ' << run.reason;
    EXPECT_EQ(run.unstable, 0) << noise;
    EXPECT_LE(run.spikes.size(), 2u) << noise;
  }
}

// Fine-tuning that has nothing more to learn, and a schedule whose restarts cost a little each time.
TEST(Divergence, ARunThatStaysOrWavesGoesOn) {
  EXPECT_EQ(course(5000, 0, 0.2, [](std::int64_t) { return 3.0; }).stopped, 0);
  EXPECT_EQ(course(5000, 0, 0, [](std::int64_t) { return 3.0; }).stopped, 0);
  const auto waves = [](std::int64_t i) { return learned(i) + 0.2 * std::sin(static_cast<double>(i) / 100); };
  EXPECT_EQ(course(5000, 0, 0.1, waves).stopped, 0);
}

TEST(Divergence, AboveItsStart) {
  const auto rises = [](std::int64_t i) { return i < 20 ? 5.0 : std::min(9.0, 5 + 0.1 * static_cast<double>(i - 20)); };
  const Course run = course(1000, 0, 0.05, rises);
  EXPECT_EQ(run.reason, "DIVERGED_ABOVE_START");
  EXPECT_GT(run.stopped, 70);
  EXPECT_LT(run.stopped, 120);
  // A warm-up may rise a little above the start.
  const auto steps = [](std::int64_t i) { return i < 60 ? 5.0 : 5.22; };
  EXPECT_EQ(course(1000, 0, 0.05, steps).reason, "DIVERGED_ABOVE_START");
  EXPECT_EQ(course(1000, 1000, 0.05, steps).stopped, 0);
}

// A training that diverges before it learns anything is measured against guessing.
TEST(Divergence, WorseThanGuessing) {
  for (const double guessing : {6.0, 300.0}) {
    DivergenceWatch watch(0, guessing);
    std::int64_t stopped = 0;
    for (std::int64_t i = 1; i <= 300 && stopped == 0; ++i) {
      if (watch.see(i, i == 1 ? 5.5 : 180 + 20 * (i % 3), 1).divergence) stopped = i;
    }
    EXPECT_EQ(stopped > 0, guessing == 6) << stopped;
    EXPECT_LT(stopped, 100);
  }
}

TEST(Divergence, FarFromItsBest) {
  const Course run = course(3000, 100, 0.05, [](std::int64_t i) { return i < 1000 ? learned(i) : 6.5; });
  EXPECT_EQ(run.reason, "DIVERGED_FROM_BEST");
  EXPECT_GT(run.stopped, 1060);
  EXPECT_LT(run.stopped, 1100);
  // The loss returns in time.
  const Course back = course(3000, 100, 0.05, [](std::int64_t i) { return i >= 1000 && i < 1020 ? 6.5 : learned(i); });
  EXPECT_EQ(back.stopped, 0);
}

TEST(Divergence, SpikesOfLossAndNorm) {
  const auto at = [](std::int64_t i) { return i == 700 || i == 900; };
  const Course loss = course(1500, 100, 0.05, [&](std::int64_t i) { return learned(i) + (at(i) ? 1 : 0); });
  EXPECT_EQ(loss.spikes, (std::vector<std::int64_t>{700, 900}));
  const Course norm = course(1500, 100, 0.05, learned, [&](std::int64_t i) { return at(i) ? 4.0 : 1.0; });
  EXPECT_EQ(norm.spikes, (std::vector<std::int64_t>{700, 900}));
  EXPECT_EQ(norm.unstable, 0);
}

TEST(Divergence, SixSpikesWithinAThousandUpdates) {
  const auto every = [](std::int64_t updates) {
    return course(4000, 100, 0.05, [=](std::int64_t i) { return learned(i) + (i > 500 && i % updates == 0 ? 1 : 0); });
  };
  EXPECT_EQ(every(150).unstable, 600 + 5 * 150);
  EXPECT_EQ(every(300).unstable, 0);
}

}  // namespace
}  // namespace plimsoll
