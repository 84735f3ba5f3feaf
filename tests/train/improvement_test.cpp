#include "train/improvement.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace plimsoll {
namespace {

Config config(Duration patience, double min_delta = 0) {
  Config config;
  config.train.effective_batch = 4;
  config.train.updates = 100;
  config.stop = {patience, min_delta, StopMetric::loss};
  return config;
}

Evaluation at(std::int64_t update, double loss, std::int64_t units = 10) {
  return {.update = update, .samples = 4 * update, .loss = loss, .units = units, .seconds = 0, .accuracy = {}};
}

TEST(ImprovementWatch, TheLowestLossIsTheBestAndOfEqualOnesTheFirst) {
  ImprovementWatch watch(config({}));
  const std::vector<double> losses{3, 2, 2, 2.5, std::nan(""), 1.5, HUGE_VAL};
  std::vector<std::int64_t> best;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (watch.see(at(static_cast<std::int64_t>(i) + 1, losses[i]))) best.push_back(static_cast<std::int64_t>(i) + 1);
  }
  EXPECT_EQ(best, (std::vector<std::int64_t>{1, 2, 6}));
  EXPECT_EQ(watch.best()->update, 6);
  EXPECT_FALSE(watch.stops());
  EXPECT_FALSE(watch.see(at(7, 1)));  // a second one at the update
}

TEST(ImprovementWatch, StopsAtTheFirstEvaluationThatComesLateEnough) {
  const auto stops_at = [](const Config& config, const std::vector<double>& losses) {
    ImprovementWatch watch(config);
    for (std::size_t i = 0; i < losses.size(); ++i) {
      watch.see(at(10 * (static_cast<std::int64_t>(i) + 1), losses[i]));
      if (watch.stops()) return 10 * (static_cast<std::int64_t>(i) + 1);
    }
    return std::int64_t{0};
  };
  const std::vector<double> losses{3, 2, 1.99, 1.98, 1.97, 1.96, 1.95};
  EXPECT_EQ(stops_at(config({20, ClockUnit::updates}), losses), 0);
  EXPECT_EQ(stops_at(config({20, ClockUnit::updates}, 0.5), losses), 40);
  EXPECT_EQ(stops_at(config({21, ClockUnit::updates}, 0.5), losses), 50);
  EXPECT_EQ(stops_at(config({80, ClockUnit::samples}, 0.5), losses), 40);
  // Small steps add up to an improvement over the last one.
  EXPECT_EQ(stops_at(config({20, ClockUnit::updates}, 0.015), losses), 0);
  EXPECT_EQ(stops_at(config({20, ClockUnit::updates}), {2, std::nan(""), std::nan("")}), 30);
}

TEST(ImprovementWatch, EvaluationsOfOtherUnitsAreNotCompared) {
  ImprovementWatch watch(config({20, ClockUnit::updates}));
  EXPECT_TRUE(watch.see(at(10, 1)));
  EXPECT_FALSE(watch.see(at(20, 2)));
  EXPECT_TRUE(watch.see(at(30, 3, 99)));
  EXPECT_FALSE(watch.stops());
  EXPECT_EQ(watch.best()->update, 30);
  watch.see(at(40, 4, 99));
  EXPECT_FALSE(watch.stops());
  watch.see(at(50, 4, 99));
  EXPECT_TRUE(watch.stops());
}

TEST(ImprovementWatch, TheHighestAccuracyIsTheBestIfItDecides) {
  Config by_accuracy = config({});
  by_accuracy.stop.metric = StopMetric::accuracy;
  ImprovementWatch watch(by_accuracy);
  const auto with = [](std::int64_t update, double loss, double top1) {
    Evaluation evaluation = at(update, loss);
    evaluation.accuracy = {top1, 1};
    return evaluation;
  };
  EXPECT_TRUE(watch.see(with(1, 1, 0.5)));
  EXPECT_TRUE(watch.see(with(2, 2, 0.75)));
  EXPECT_FALSE(watch.see(with(3, 0.5, 0.75)));
  EXPECT_EQ(watch.best()->update, 2);
}

TEST(ImprovementWatch, OnAPlateauTheRateFallsAndTheCountBeginsAnew) {
  Config plateau = config({});
  plateau.schedule.kind = ScheduleKind::plateau;
  plateau.schedule.patience = {20, ClockUnit::updates};
  plateau.schedule.factor = 0.5;
  plateau.schedule.final_fraction = 0.2;
  ImprovementWatch watch(plateau);
  std::vector<double> factors;
  for (const double loss : {3.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.0, 2.0, 2.0, 2.0, 2.0}) {
    watch.see(at(10 * (std::ssize(factors) + 1), loss));
    factors.push_back(watch.rate_factor());
  }
  EXPECT_EQ(factors, (std::vector<double>{1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.2, 0.2, 0.2}));
}

}  // namespace
}  // namespace plimsoll
