// The scale of the loss, window by window, and what a checkpoint keeps of it.
#include "train/loss_scale.h"

#include <gtest/gtest.h>

#include <string>

namespace plimsoll {
namespace {

using Next = LossScale::Next;

// The scale of each try and its outcome: "64 o", "32 u". Tries are given as o (overflows) and f (finite).
std::string trajectory(LossScale& scale, const std::string& tries, std::int64_t samples = 8) {
  std::string text;
  for (const char each : tries) {
    text += (text.empty() ? "" : " ") + std::to_string(static_cast<int>(scale.scale()));
    text += "urs"[static_cast<int>(scale.tried(each == 'f', samples))];
  }
  return text;
}

LossScale scale_from(double scale, double growth_samples = 24) {
  return {{growth_samples}, LossScaleState{.scale = scale, .recent = {}}};
}

TEST(LossScale, DoublesAfterSoManySamples) {
  LossScale scale = scale_from(64);
  EXPECT_EQ(trajectory(scale, "fffffff"), "64u 64u 64u 128u 128u 128u 256u");
  LossScale larger = scale_from(64);
  EXPECT_EQ(trajectory(larger, "fff", 16), "64u 64u 128u") << "in samples, not in windows";
  LossScale most = scale_from(0x1p24, 1);
  trajectory(most, "ff");
  EXPECT_EQ(most.scale(), 0x1p24);
}

TEST(LossScale, OneOverflowLowersItForItsWindowAlone) {
  LossScale scale = scale_from(64);
  EXPECT_EQ(trajectory(scale, "ffoff"), "64u 64u 64r 32u 64u");
  EXPECT_EQ(trajectory(scale, "ffff"), "64u 64u 128u 128u") << "what counts towards growth begins anew behind it";
}

TEST(LossScale, ASecondOneBeforeItGrewLowersItForGood) {
  LossScale scale = scale_from(64);
  EXPECT_EQ(trajectory(scale, "offoof"), "64r 32u 64u 64r 32r 16u");
  EXPECT_EQ(trajectory(scale, "ffff"), "16u 16u 16u 32u");
  LossScale grown = scale_from(64);
  EXPECT_EQ(trajectory(grown, "offffofof"), "64r 32u 64u 64u 64u 128r 64u 128r 64u") << "growth forgets an overflow";
}

TEST(LossScale, AfterThreeRetriesAWindowIsSkipped) {
  LossScale scale = scale_from(64);
  EXPECT_EQ(trajectory(scale, "oooof"), "64r 32r 16r 8s 4u");
  EXPECT_EQ(scale.state().skipped, 1);
  EXPECT_FALSE(scale.hopeless());
}

TEST(LossScale, ThreeWindowsBelowOneAreHopeless) {
  LossScale scale = scale_from(4);
  trajectory(scale, "oooo");
  EXPECT_EQ(scale.scale(), 0.25);
  trajectory(scale, "ffff");
  EXPECT_FALSE(scale.hopeless()) << "a scale below 1 that suffices";
  trajectory(scale, "oooooooo");
  EXPECT_FALSE(scale.hopeless());
  trajectory(scale, "oooo");
  EXPECT_TRUE(scale.hopeless());
}

TEST(LossScale, MoreThanATenthSkippedIsHopeless) {
  LossScale scale = scale_from(0x1p24, 8);  // grows at once
  for (int window = 0; window < 20; ++window) trajectory(scale, "ooooffff");
  EXPECT_FALSE(scale.hopeless());
  trajectory(scale, "oooo");
  EXPECT_TRUE(scale.hopeless());
  LossScale spread = scale_from(0x1p24, 8);
  for (int window = 0; window < 40; ++window) trajectory(spread, "oooofffffffffffff");
  EXPECT_FALSE(spread.hopeless()) << "only the last 200 windows count";
}

TEST(LossScale, GoesOnFromItsState) {
  LossScale whole = scale_from(64), first = scale_from(64);
  const std::string behind = "fofffffff";
  trajectory(whole, "ffoffof");
  trajectory(first, "ffoffof");
  LossScale second({24}, first.state());
  EXPECT_EQ(trajectory(second, behind), trajectory(whole, behind));
  EXPECT_EQ(second.state(), whole.state());
}

}  // namespace
}  // namespace plimsoll
