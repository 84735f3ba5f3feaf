#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "config/schedule.h"
#include "formats/expect_error.h"

namespace plimsoll {
namespace {

constexpr RunLength kRun{32, 128, 100};  // samples of an update, tokens of a sample, updates

// The factor of an update, counted from 1.
double factor(const Schedule& schedule, std::int64_t update, const RunLength& run = kRun) {
  return schedule_factor(schedule, run, (update - 1) * run.effective_batch);
}

TEST(Schedule, WarmUpRisesByOneStepPerUpdate) {
  const Schedule schedule{ScheduleKind::constant, {10, ClockUnit::updates}, 1};
  for (std::int64_t update = 1; update <= 10; ++update)
    EXPECT_DOUBLE_EQ(factor(schedule, update), static_cast<double>(update) / 10);
  EXPECT_EQ(factor(schedule, 11), 1);
  EXPECT_EQ(factor(schedule, 1000), 1);
  EXPECT_EQ(factor({ScheduleKind::constant, {}, 1}, 1), 1);
}

TEST(Schedule, UnitsOfTheWarmUpAgree) {
  for (const ScheduleKind kind : {ScheduleKind::constant, ScheduleKind::linear, ScheduleKind::cosine}) {
    for (std::int64_t update = 1; update <= 110; ++update) {
      const double expected = factor({kind, {10, ClockUnit::updates}, 0.1}, update);
      EXPECT_EQ(factor({kind, {320, ClockUnit::samples}, 0.1}, update), expected);
      EXPECT_EQ(factor({kind, {320 * 128, ClockUnit::tokens}, 0.1}, update), expected);
    }
  }
}

// transformers' get_linear_schedule_with_warmup after its warm-up, nanoGPT's cosine.
TEST(Schedule, DecayFollowsTheCommonFormulas) {
  const Schedule linear{ScheduleKind::linear, {10, ClockUnit::updates}, 0};
  const Schedule cosine{ScheduleKind::cosine, {10, ClockUnit::updates}, 0.1};
  for (std::int64_t before = 10; before < 100; ++before) {
    const double left = static_cast<double>(100 - before) / 90;
    EXPECT_NEAR(factor(linear, before + 1), left, 1e-15);
    EXPECT_NEAR(factor(cosine, before + 1), 0.1 + 0.9 * 0.5 * (1 + std::cos(std::numbers::pi * (1 - left))), 1e-15);
  }
  EXPECT_NEAR(factor(cosine, 500), 0.1, 1e-15);
  EXPECT_EQ(factor(linear, 500), 0);
}

// torch.optim.lr_scheduler: CosineAnnealingWarmRestarts(T_0=10, T_mult), CyclicLR(step_size_up=5), PolynomialLR.
TEST(Schedule, CyclesBeginAgain) {
  const auto wave = [](double progress) { return (1 + std::cos(std::numbers::pi * progress)) / 2; };
  Schedule restarts{.kind = ScheduleKind::cosine_restarts, .final_fraction = 0.1, .cycle = {10, ClockUnit::updates}};
  for (std::int64_t before = 0; before < 40; ++before)
    EXPECT_NEAR(factor(restarts, before + 1), 0.1 + 0.9 * wave(static_cast<double>(before % 10) / 10), 1e-12);
  restarts.cycle_growth = 2;
  EXPECT_EQ(factor(restarts, 1), 1);
  EXPECT_EQ(factor(restarts, 11), 1) << "10 updates";
  EXPECT_NEAR(factor(restarts, 21), 0.55, 1e-12) << "the half of 20";
  EXPECT_EQ(factor(restarts, 31), 1);
  EXPECT_EQ(factor(restarts, 71), 1) << "40 updates later";
  Schedule triangle{.kind = ScheduleKind::triangular, .final_fraction = 0.2, .cycle = {320, ClockUnit::samples}};
  Schedule halved = triangle;
  halved.kind = ScheduleKind::triangular2;
  for (std::int64_t before = 0; before < 40; ++before) {
    const double at = static_cast<double>(before % 10) / 5, height = at <= 1 ? at : 2 - at;
    EXPECT_NEAR(factor(triangle, before + 1), 0.2 + 0.8 * height, 1e-12);
    EXPECT_NEAR(factor(halved, before + 1), 0.2 + 0.8 * height / std::pow(2, before / 10), 1e-12);
  }
  const Schedule polynomial{.kind = ScheduleKind::polynomial, .final_fraction = 0, .power = 2};
  for (std::int64_t before = 0; before < 100; ++before)
    EXPECT_NEAR(factor(polynomial, before + 1), std::pow(1 - static_cast<double>(before) / 100, 2), 1e-12);
}

TEST(Schedule, OneCycleRisesAndFallsAgainstItsMomentum) {
  Schedule schedule{.kind = ScheduleKind::one_cycle, .final_fraction = 0.001, .momentum = {{0.95, 0.85}}};
  const auto momentum = [&](std::int64_t update) { return scheduled_momentum(schedule, kRun, (update - 1) * 32, 0.5); };
  // torch.optim.lr_scheduler.OneCycleLR(max_lr=1, total_steps=100, final_div_factor=40), whose step 0 is update 1.
  const auto wave = [](double progress) { return (1 - std::cos(std::numbers::pi * progress)) / 2; };
  for (std::int64_t update = 1; update <= 30; ++update) {
    const double level = wave(static_cast<double>(update - 1) / 29);
    EXPECT_NEAR(factor(schedule, update), 0.04 + 0.96 * level, 1e-12);
    EXPECT_NEAR(momentum(update), 0.95 - 0.1 * level, 1e-12);
  }
  for (std::int64_t update = 30; update <= 100; ++update) {
    const double level = 1 - wave(static_cast<double>(update - 30) / 70);
    EXPECT_NEAR(factor(schedule, update), 0.001 + 0.999 * level, 1e-12);
    EXPECT_NEAR(momentum(update), 0.95 - 0.1 * level, 1e-12);
  }
  EXPECT_DOUBLE_EQ(factor(schedule, 100), 0.001);
  schedule.momentum.reset();
  EXPECT_EQ(momentum(31), 0.5);
}

TEST(Schedule, StableUntilTheDecay) {
  Schedule schedule{
      .kind = ScheduleKind::wsd, .warmup = {10, ClockUnit::updates}, .final_fraction = 0.1, .decay = {20, ClockUnit::updates}};
  for (const DecayShape shape : {DecayShape::linear, DecayShape::sqrt}) {
    schedule.decay_shape = shape;
    EXPECT_DOUBLE_EQ(factor(schedule, 5), 0.5);
    for (std::int64_t update = 10; update <= 81; ++update) EXPECT_EQ(factor(schedule, update), 1) << update;
    EXPECT_NEAR(factor(schedule, 86), 0.1 + 0.9 * (shape == DecayShape::linear ? 0.75 : 0.5), 1e-12);
    EXPECT_NEAR(factor(schedule, 101), 0.1, 1e-12);
  }
  schedule.decay = {200, ClockUnit::updates};
  EXPECT_EQ(factor(schedule, 10), 1) << "a decay that is longer than the run begins behind the warm-up";
  EXPECT_LT(factor(schedule, 12), 1);
}

// A warm-up rises to the first value of every schedule.
TEST(Schedule, WarmUpAnywhere) {
  for (const ScheduleKind kind : {ScheduleKind::cosine_restarts, ScheduleKind::triangular, ScheduleKind::triangular2,
                                  ScheduleKind::one_cycle, ScheduleKind::wsd, ScheduleKind::polynomial}) {
    Schedule plain{.kind = kind, .final_fraction = 0.1, .cycle = {25, ClockUnit::updates}, .decay = {20, ClockUnit::updates}};
    Schedule warmed = plain;
    warmed.warmup = {10, ClockUnit::updates};
    const RunLength shorter{32, 128, 90};
    for (std::int64_t update = 1; update <= 10; ++update)
      EXPECT_NEAR(factor(warmed, update), factor(plain, 1, shorter) * static_cast<double>(update) / 10, 1e-12);
    for (std::int64_t update = 11; update <= 100; ++update)
      EXPECT_NEAR(factor(warmed, update), factor(plain, update - 10, shorter), 1e-9) << update;
  }
}

TEST(Schedule, WarmUpLongerThanTheRunOnlyRises) {
  const Schedule schedule{ScheduleKind::cosine, {200, ClockUnit::updates}, 0.1};
  for (std::int64_t update = 1; update <= 100; ++update)
    EXPECT_DOUBLE_EQ(factor(schedule, update), static_cast<double>(update) / 200);
}

TEST(Schedule, Durations) {
  const auto parse = [](std::string_view text) { return parse_duration(text, 250, "here"); };
  EXPECT_EQ(parse("100"), (Duration{100, ClockUnit::updates}));
  EXPECT_EQ(parse("100updates"), (Duration{100, ClockUnit::updates}));
  EXPECT_EQ(parse("20000 samples"), (Duration{20000, ClockUnit::samples}));
  EXPECT_EQ(parse("1Mtokens"), (Duration{1000000, ClockUnit::tokens}));
  EXPECT_EQ(parse("1.5k samples"), (Duration{1500, ClockUnit::samples}));
  EXPECT_EQ(parse("3%"), (Duration{8, ClockUnit::updates}));
  EXPECT_EQ(to_text(parse("1Mtokens")), "1000000tokens");
  EXPECT_ERROR(parse("soon"), "E-CONFIG-VALUE", "here");
  EXPECT_ERROR(parse("101%"), "E-CONFIG-RANGE", "longer");
  EXPECT_ERROR(parse("1e300tokens"), "E-CONFIG-RANGE", "2^53");
  EXPECT_ERROR(parse(""), "E-CONFIG-VALUE", "number");
}

}  // namespace
}  // namespace plimsoll
