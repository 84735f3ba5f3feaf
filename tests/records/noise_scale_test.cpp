// The noise scale: known answers in simulated runs, mistakes that must show, and runs that tell nothing.
#include "records/noise_scale.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <vector>

#include "train/noise_samples.h"

namespace plimsoll {
namespace {

constexpr double kTruth = 100;  // samples: the variance of a sample over the square of the expected gradient
constexpr int kRuns = 200, kWindows = 40, kSamples = 100, kFirst = 25;  // 40 x 100 is 40 times the noise scale
constexpr int kDirections = 64;

struct Simulation {
  bool lognormal = false;
  bool counts_units = false;  // a mistake: units are taken for samples
  double clip = 0;            // a mistake: the window's norm is that after the clip
  double moved = 1;           // a mistake: the window's gradient is that after an update, which scales the expected one
};

// The mean gradient of normal samples is normal, with the variance of Kish's number of samples.
class SimulatedRun {
 public:
  SimulatedRun(const Simulation& simulation, unsigned seed) : simulation_(simulation), random_(seed) {}

  std::vector<NoiseSums> windows() {
    std::vector<NoiseSums> all;
    for (int i = 0; i < kWindows; ++i) all.push_back(window());
    return all;
  }

 private:
  NoiseSums window() {
    CountedSamples first, rest, all;
    for (int i = 0; i < kSamples; ++i) {
      const std::int64_t units = simulation_.lognormal ? std::llround(std::exp(4 + normal_(random_))) + 1 : 1;
      (i < kFirst ? first : rest).add(units);
      all.add(units);
    }
    double of_first = 0, of_all = 0;
    for (int i = 0; i < kDirections; ++i) {
      const double expected = i == 0 ? 1 : 0, a = noise(first), b = noise(rest);
      const double before = (a * first.units + b * rest.units) / all.units;
      of_first += std::pow(expected + a, 2);
      of_all += std::pow(expected * simulation_.moved + before, 2);
    }
    if (simulation_.clip > 0) of_all = std::min(of_all, simulation_.clip * simulation_.clip);
    if (simulation_.counts_units) return {of_first, of_all, first.units, all.units};
    return {of_first, of_all, first.effective(), all.effective()};
  }

  double noise(const CountedSamples& samples) { return normal_(random_) * std::sqrt(kTruth / kDirections / samples.effective()); }

  Simulation simulation_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
};

struct Answers {
  int numbers = 0, covered = 0;  // of kRuns
  bool hold() const { return numbers >= 0.90 * kRuns && covered >= 0.82 * numbers; }
};

Answers answers(const Simulation& simulation) {
  Answers answers;
  for (int i = 0; i < kRuns; ++i) {
    const auto scale = noise_scale(SimulatedRun(simulation, 1000U + static_cast<unsigned>(i)).windows());
    if (!scale) continue;
    EXPECT_EQ(scale->windows, kWindows);
    EXPECT_LE(scale->low, scale->high);
    EXPECT_GT(scale->low, 0);
    ++answers.numbers;
    answers.covered += scale->low <= kTruth && kTruth <= scale->high ? 1 : 0;
  }
  return answers;
}

testing::AssertionResult holds(const Simulation& simulation) {
  const Answers of = answers(simulation);
  testing::Test::RecordProperty(simulation.lognormal ? "ragged" : "equal", fmt::format("{}/{}", of.covered, of.numbers));
  auto result = of.hold() ? testing::AssertionSuccess() : testing::AssertionFailure();
  return result << of.numbers << " numbers in " << kRuns << " runs, " << of.covered << " intervals with the truth";
}

TEST(NoiseScale, IsTheTruthOfEqualSamples) { EXPECT_TRUE(holds({})); }
TEST(NoiseScale, IsTheTruthOfRaggedSamples) { EXPECT_TRUE(holds({.lognormal = true})); }

TEST(NoiseScale, ShowsMistakes) {
  EXPECT_FALSE(holds({.lognormal = true, .counts_units = true}));
  for (const bool lognormal : {false, true}) {
    EXPECT_FALSE(holds({.lognormal = lognormal, .clip = 1})) << "norms after the clip";
    EXPECT_FALSE(holds({.lognormal = lognormal, .moved = 0.7})) << "the sums are taken on two sides of an update";
  }
}

// Each window's own ratio has a mean that is far from the truth. The sums come first.
TEST(NoiseScale, IsNoMeanOfRatios) {
  int near = 0, near_of_ratios = 0;
  for (unsigned i = 0; i < kRuns; ++i) {
    const std::vector<NoiseSums> windows = SimulatedRun({.lognormal = true}, 1000 + i).windows();
    double ratios = 0;
    for (const NoiseSums& each : windows) {
      const double variance = (each.first - each.window) / (1 / each.samples_first - 1 / each.samples_window);
      ratios += variance / (each.window - variance / each.samples_window) / kWindows;
    }
    const auto is_near = [](double value) { return std::abs(value / kTruth - 1) < 0.5; };
    near_of_ratios += is_near(ratios) ? 1 : 0;
    const auto scale = noise_scale(windows);
    near += scale && is_near(scale->value) ? 1 : 0;
  }
  EXPECT_GE(near, 0.9 * kRuns);
  EXPECT_LT(near_of_ratios, 0.5 * kRuns);
}

TEST(NoiseScale, HasTheSameBitsEachTime) {
  const std::vector<NoiseSums> windows = SimulatedRun({}, 7).windows();
  const auto a = noise_scale(windows), b = noise_scale(windows);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(to_json(a), to_json(b));
}

TEST(NoiseScale, OfFewWindowsIsNothing) {
  const std::vector<NoiseSums> windows = SimulatedRun({}, 7).windows();
  EXPECT_TRUE(noise_scale(std::span(windows).first(20)));
  EXPECT_FALSE(noise_scale(std::span(windows).first(19)));
  EXPECT_EQ(to_json(noise_scale(std::span(windows).first(19))), nullptr);
  EXPECT_EQ(noise_text({}), "insufficient data");
  // Windows of one round, or with a number that is not finite, do not count.
  std::vector<NoiseSums> some(windows.begin(), windows.begin() + 20);
  some[3].samples_first = some[3].samples_window;
  EXPECT_FALSE(noise_scale(some));
  some[3] = windows[3], some[4].first = std::nan("");
  EXPECT_FALSE(noise_scale(some));
}

// Neither a negative number nor an infinite one is ever told.
TEST(NoiseScale, WithoutSignalOrWithoutNoiseIsNothing) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  std::vector<NoiseSums> no_signal, no_noise;
  for (int i = 0; i < 100; ++i) {
    double first = 0, window = 0;
    for (int k = 0; k < kDirections; ++k) {
      const double a = normal(random), b = normal(random);
      first += a * a, window += std::pow((a + 3 * b / std::sqrt(3)) / 4, 2);
    }
    no_signal.push_back({first, window, 25, 100});
    no_noise.push_back({1 + 1e-3 * normal(random), 1 + 1e-3 * normal(random), 25, 100});
  }
  EXPECT_FALSE(noise_scale(no_signal));
  EXPECT_FALSE(noise_scale(no_noise));
  for (NoiseSums& each : no_noise) each.first = 0.5;
  EXPECT_FALSE(noise_scale(no_noise)) << "the variance is negative";
}

// Records of foreign runs may have any number: sums overflow, a scale would be infinite.
TEST(NoiseScale, OfNumbersBeyondDoublesIsNothing) {
  std::vector<NoiseSums> windows = SimulatedRun({}, 7).windows();
  ASSERT_TRUE(noise_scale(windows));
  std::vector<NoiseSums> large(40, {1e308, 1e307, 25, 100}), mixed = windows, faint(40, {1e302, 1.001e-6, 1, 1e308});
  EXPECT_FALSE(noise_scale(large));
  for (std::size_t i = 0; i < 6; ++i) mixed[i].first = mixed[i].window = 1e308;
  EXPECT_FALSE(noise_scale(mixed));
  EXPECT_FALSE(noise_scale(faint));
}

TEST(NoiseScale, CountsSamplesByTheirUnits) {
  CountedSamples equal, one;
  for (int i = 0; i < 8; ++i) equal.add(7);
  EXPECT_DOUBLE_EQ(equal.effective(), 8);
  one.add(1000), one.add(1), one.add(1);
  EXPECT_NEAR(one.effective(), 1.004, 1e-3);
}

}  // namespace
}  // namespace plimsoll
