#include "plan/layout/greedy.h"

#include <gtest/gtest.h>

#include "plan/layout/instances.h"
#include "plan/layout/judge.h"

namespace plimsoll::layout {
namespace {

// The result is the first of the orders that are low enough, not the one that finished first.
TEST(Greedy, IsTheSameWhateverThreadsDo) {
  Dice dice(9);
  for (int round = 0; round < 5; ++round) {
    const Problem problem = random_problem(dice, 600, 52, 60);
    const std::int64_t enough = lower_bound(problem) * 5 / 4;
    const Solution first = greedy(problem, enough);
    ASSERT_LE(first.height, enough);
    for (int again = 0; again < 40; ++again) ASSERT_EQ(greedy(problem, enough).offsets, first.offsets);
  }
}

// Training steps with many small buffers, where first fit by size leaves holes.
TEST(Greedy, PromotionLowersFirstFit) {
  Dice dice(3);
  constexpr int kRounds = 24;
  std::int64_t gained = 0, left = 0;
  for (int round = 0; round < 20; ++round) {
    const Problem problem = training_trace(dice, 24, 7);
    const Solution once = first_fit(problem, 1, 0), often = first_fit(problem, kRounds, 0);
    EXPECT_TRUE(judge(problem, often).empty()) << judge(problem, often).front();
    ASSERT_LE(often.height, once.height);
    gained += once.height - often.height;
    left += often.height - lower_bound(problem);
    EXPECT_EQ(first_fit(problem, kRounds, once.height).offsets, once.offsets) << "low enough at once";
    EXPECT_LE(greedy(problem).height, often.height + often.height / 50);
  }
  EXPECT_GT(gained, 2 * left) << "most of what lies above the bound goes";
}

}  // namespace
}  // namespace plimsoll::layout
