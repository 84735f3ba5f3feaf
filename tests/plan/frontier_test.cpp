// Update time against memory: the choice of points, and each point as the plan of its budget.

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/search/frontier.h"
#include "plan/small_models.h"

namespace plimsoll {
namespace {

Candidate rung_of(std::int64_t live, double seconds) {
  Candidate candidate;
  candidate.live = Bytes{live};
  candidate.update_seconds = seconds;
  return candidate;
}

bool has(const std::vector<FrontierPoint>& points, const Plan& plan) {
  return std::any_of(points.begin(), points.end(), [&](const FrontierPoint& point) {
    return point.process == plan.process && point.update_seconds == plan.update_seconds;
  });
}

TEST(Front, CoversWhatAddsNothing) {
  Front front;
  EXPECT_FALSE(front.covers(std::vector{rung_of(100, 1.0)}, 0));
  EXPECT_TRUE(front.covers({}, 0));
  front.add(std::vector{rung_of(100, 2.0), rung_of(200, 1.0), rung_of(150, 3.0), rung_of(100, 2.5)});
  EXPECT_TRUE(front.covers(std::vector{rung_of(100, 2.0), rung_of(150, 2.0), rung_of(300, 1.0)}, 0));
  EXPECT_FALSE(front.covers(std::vector{rung_of(99, 9.0)}, 0)) << "fewer bytes than all";
  EXPECT_FALSE(front.covers(std::vector{rung_of(199, 1.9), rung_of(300, 5.0)}, 0)) << "one of them is faster";
  EXPECT_TRUE(front.covers(std::vector{rung_of(199, 1.9)}, 0.06));
  front.add(std::vector{rung_of(90, 0.5)});
  EXPECT_TRUE(front.covers(std::vector{rung_of(90, 0.5), rung_of(200, 0.6)}, 0)) << "what beats all takes their place";
}

TEST(Front, FewerBytesInOneMeasureAddToIt) {
  const auto with_reserve = [](std::int64_t live, std::int64_t reserve) {
    Candidate candidate = rung_of(live, 1.0);
    candidate.reserve = Bytes{reserve};
    return std::vector{candidate};
  };
  Front front;
  front.add(with_reserve(100, 20));
  EXPECT_TRUE(front.covers(with_reserve(100, 21), 0));
  EXPECT_FALSE(front.covers(with_reserve(99, 30), 0)) << "fewer bytes of values";
  EXPECT_FALSE(front.covers(with_reserve(105, 10), 0)) << "fewer bytes of the process";
  front.add(with_reserve(99, 30));
  EXPECT_TRUE(front.covers(with_reserve(99, 30), 0));
}

TEST(SpreadRungs, DivideTheLadderEvenly) {
  std::vector<Candidate> ladder;
  for (int i = 0; i <= 32; ++i) ladder.push_back(rung_of(std::int64_t{1} << (40 - i), 1 + i / 32.0));
  const std::vector<std::size_t> rungs = spread_rungs(ladder, 3);
  ASSERT_EQ(rungs.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(static_cast<double>(rungs[i]), 8.0 * static_cast<double>(i + 1), 1);
  EXPECT_TRUE(spread_rungs(ladder, 0).empty());
  EXPECT_TRUE(spread_rungs(ladder, -2).empty());
  EXPECT_EQ(spread_rungs(ladder, 1).size(), 1U);
  EXPECT_EQ(spread_rungs(ladder, 1000).size(), 31U);
  EXPECT_TRUE(spread_rungs({ladder.begin(), ladder.begin() + 2}, 9).empty());
  EXPECT_TRUE(spread_rungs({}, 9).empty());
}

// A steep half and a flat half get the same number of points.
TEST(SpreadRungs, NeitherBytesNorSecondsAreLeftOut) {
  std::vector<Candidate> ladder;
  for (int i = 0; i <= 50; ++i) ladder.push_back(rung_of(1000 - 10 * i, 1 + 1e-6 * i));
  for (int i = 1; i <= 50; ++i) ladder.push_back(rung_of(500 - i, 2 + 0.1 * i));
  const std::vector<std::size_t> rungs = spread_rungs(ladder, 19);
  const auto flat = std::count_if(rungs.begin(), rungs.end(), [](std::size_t i) { return i <= 50; });
  EXPECT_GE(flat, 7);
  EXPECT_LE(flat, 12);
}

TEST(Frontier, MoreBytesAreFasterAndEachPointIsItsBudgetsPlan) {
  for (const ModelShape& shape : kShapes) {
    Planner planner(config_for(shape, 6));
    const std::vector<FrontierPoint> points = planner.space.frontier(12);
    ASSERT_FALSE(points.empty());
    EXPECT_LE(points.size(), 12U);
    EXPECT_EQ(points.front().process, planner.space.floor());
    EXPECT_EQ(points.back().process, planner.space.ceiling());
    EXPECT_TRUE(has(points, planner.plan(planner.space.knee())));
    for (std::size_t i = 0; i < points.size(); ++i) {
      const FrontierPoint& point = points[i];
      if (i > 0) EXPECT_GT(point.process, points[i - 1].process);
      if (i > 0) EXPECT_LT(point.update_seconds, points[i - 1].update_seconds);
      const Plan plan = planner.plan(point.process);
      EXPECT_EQ(plan.process, point.process);
      EXPECT_EQ(plan.arena, point.arena);
      EXPECT_EQ(plan.live, point.live);
      EXPECT_EQ(plan.update_seconds, point.update_seconds);
      EXPECT_EQ(plan.decisions.micro_batch, point.decisions.micro_batch);
      EXPECT_NEAR(point.units_per_second * point.update_seconds, static_cast<double>(plan.units_per_update), 1e-6);
    }
  }
}

TEST(Frontier, HoldsWhatAGivenBudgetGets) {
  Planner planner(config_for(kShapes[0], 6));
  const Bytes floor = planner.space.floor(), ceiling = planner.space.ceiling();
  for (const int tenths : {1, 3, 5, 8, 20}) {
    const Bytes budget = floor + Bytes{(ceiling - floor).n * tenths / 10};
    const std::vector<Bytes> budgets{budget, floor - kPage};
    EXPECT_TRUE(has(planner.space.frontier(3, budgets), planner.plan(budget))) << tenths;
  }
}

TEST(Frontier, OtherCallsChangeNothing) {
  const Config config = config_for(kShapes[0], 6);
  Planner one(config), two(config);
  two.space.frontier(20);
  two.plan(two.space.floor() + kPage);
  const auto a = one.space.frontier(8), b = two.space.frontier(8);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].process, b[i].process);
}

TEST(Frontier, TheDiskIsPartOfIt) {
  Config config = config_for(kShapes[0], 6);
  Planner memory(config);
  config.memory.disk = DiskBudget{"disk", kGiB};
  Planner disk(config);
  const std::vector<FrontierPoint> points = disk.space.frontier(12);
  EXPECT_LE(points.front().process, memory.space.floor());
  for (const FrontierPoint& point : points) EXPECT_EQ(disk.plan(point.process).process, point.process);
  for (std::size_t i = 1; i < points.size(); ++i) EXPECT_LT(points[i].update_seconds, points[i - 1].update_seconds);
}

}  // namespace
}  // namespace plimsoll
