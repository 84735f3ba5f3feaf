#include "plan/layout/greedy.h"

#include <gtest/gtest.h>

#include "plan/layout/instances.h"

namespace plimsoll::layout {
namespace {

// The first of several orders that are low enough counts, not the one that a thread finished first.
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

}  // namespace
}  // namespace plimsoll::layout
