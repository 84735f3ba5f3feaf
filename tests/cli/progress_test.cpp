// The progress line: the tokens that it counts, and the remaining time.
#include "cli/progress.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(Progress, RatesAreOfTrainedTokens) {
  EXPECT_EQ(trained_rate_text(340, 1100), "340 trained tok/s, 1100 of all tokens");
  EXPECT_EQ(trained_rate_text(12340, 12340), "12.3k trained tok/s");
  Metrics metrics;
  metrics.update = 2;
  metrics.units = 300;
  metrics.positions = 900;
  const std::string line = progress_text(metrics, {.updates = 5, .mean_seconds = 1.5, .seconds_left = 61}, 200);
  EXPECT_NE(line.find("  200 trained tok/s, 600 of all tokens  "), std::string::npos) << line;
  EXPECT_NE(line.find("eta 1m01s"), std::string::npos) << line;
}

TEST(Progress, WhatIsLeftHasEvaluationsAndSaves) {
  RemainingTime time{.updates = 10, .save_every = {0, 0}};
  EXPECT_DOUBLE_EQ(time.after(4, 2), 12);
  time.evaluates = true;
  time.evaluation_seconds = 7;
  EXPECT_DOUBLE_EQ(time.after(4, 2), 12 + 7);  // at the end
  EXPECT_DOUBLE_EQ(time.after(10, 2), 7);
  time.evaluate_every = 3;  // at updates 3, 6, 9 and 10
  EXPECT_DOUBLE_EQ(time.after(1, 2), 18 + 4 * 7);
  EXPECT_DOUBLE_EQ(time.after(3, 2), 14 + 4 * 7);  // that of this update is still to come
  EXPECT_DOUBLE_EQ(time.after(4, 2), 12 + 3 * 7);
  EXPECT_DOUBLE_EQ(time.after(9, 2), 2 + 2 * 7);
  time.evaluate_every = 5;  // at 5 and 10, where the last update is a multiple
  EXPECT_DOUBLE_EQ(time.after(6, 2), 8 + 7);
  time.save_seconds = 100;
  EXPECT_DOUBLE_EQ(time.after(6, 2), 8 + 7 + 100);
  time.save_every = {4, 0};  // at 4, 8 and at the end
  EXPECT_DOUBLE_EQ(time.after(6, 2), 8 + 7 + 200);
  time.save_every = {0, 6};  // two in 15 seconds, and that at the end
  EXPECT_DOUBLE_EQ(time.after(6, 2), 8 + 7 + 300);
}

}  // namespace
}  // namespace plimsoll
