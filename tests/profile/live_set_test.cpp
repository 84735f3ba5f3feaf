// The live set at the peak adds up to the planned bytes; a timer shares the bytes of the reader of checkpoints.
#include "profile/live_set.h"

#include <gtest/gtest.h>

#include "plan/small_models.h"
#include "profile/measured_updates.h"

namespace plimsoll {
namespace {

const Config kConfig = config_for({3, 16, 2, 8, 33}, 4);

TEST(LiveSet, AddsUpToThePeakOfThePlan) {
  for (const BlockMode mode : {BlockMode::keep, BlockMode::recompute}) {
    const Plan plan = plan_with(kConfig, 2, {mode}, 1);
    const LivePeak peak = live_at_peak(plan, round_machine());
    EXPECT_EQ(peak.live, plan.live);
    Bytes sum, before{1LL << 40};
    bool again = false;
    for (const LiveValue& value : peak.values) {
      sum += value.bytes;
      EXPECT_LE(value.bytes, before);
      before = value.bytes;
      EXPECT_LE(value.born, peak.step) << value.value;
      EXPECT_LT(peak.step, value.dies) << value.value;
      EXPECT_FALSE(value.why.empty());
      EXPECT_FALSE(value.owner.empty());
      again = again || value.recompute.has_value();
      if (value.owner == "parameters") EXPECT_FALSE(value.recompute);
    }
    EXPECT_EQ(sum, peak.live);
    EXPECT_TRUE(again);
  }
}

TEST(LiveSet, CostsTheNearestLinkThereAndBack) {
  Machine machine = round_machine();
  machine.tiers = {{TierKind::compute, "ram", kGiB}, {TierKind::disk, "disk", kGiB}};
  machine.links = {{.from = 0, .to = 1, .bytes_per_second = 1000, .latency_seconds = 0.5},
                   {.from = 1, .to = 0, .bytes_per_second = 500, .latency_seconds = 0.25}};
  const LivePeak peak = live_at_peak(plan_with(kConfig, 2, {BlockMode::keep}, 1), machine);
  int moved = 0;
  for (const LiveValue& value : peak.values) {
    if (!value.move) continue;
    ++moved;
    EXPECT_DOUBLE_EQ(*value.move, 0.75 + static_cast<double>(value.bytes.n) * 0.003);
  }
  EXPECT_GT(moved, 3);
}

TEST(TimerReserve, SharesWithTheReaderOfCheckpoints) {
  const auto grown = [](Bytes timer) {
    Plan plan = plan_with(kConfig, 2, {BlockMode::keep}, 1);
    const Bytes before = plan.process;
    reserve_timer(plan, timer);
    EXPECT_EQ(plan.process, plan.arena + total(plan.reserve));
    return plan.process - before;
  };
  EXPECT_EQ(grown(Bytes{1000}).n, 0);
  EXPECT_EQ(grown(kReadBack).n, 0);
  EXPECT_EQ(grown(kReadBack + Bytes{24}).n, 24);
}

}  // namespace
}  // namespace plimsoll
