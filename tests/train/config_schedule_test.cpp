#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "formats/expect_error.h"
#include "train/schedule.h"

namespace plimsoll {
namespace {

constexpr RunLength kRun{32, 128, 100};  // samples of an update, tokens of a sample, updates

// Of update u, counted from 1.
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
