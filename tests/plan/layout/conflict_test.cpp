#include "plan/layout/conflict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "plan/layout/greedy.h"

namespace plimsoll::layout {
namespace {

Problem random_problem(std::mt19937& random, int buffers) {
  Problem problem;
  problem.alignment = 4;
  for (int i = 0; i < buffers; ++i) {
    const std::int64_t begin = static_cast<std::int64_t>(random() % 40);
    const std::int64_t life = 1 + static_cast<std::int64_t>(random() % 12), size = 1 + static_cast<std::int64_t>(random() % 60);
    problem.buffers.push_back({begin, begin + life, size});
  }
  return problem;
}

Problem only(const Problem& problem, const std::vector<std::size_t>& some) {
  Problem part;
  part.alignment = problem.alignment;
  for (const std::size_t i : some) part.buffers.push_back(problem.buffers[i]);
  return part;
}

TEST(Conflict, IsAPartThatGreedyDoesNotPlaceAndNeedsAllOf) {
  std::mt19937 random(5);
  int found = 0, needless = 0, members = 0;
  for (int round = 0; round < 200; ++round) {
    const Problem problem = random_problem(random, 30);
    const std::int64_t capacity = lower_bound(problem);
    const Solution solution = greedy(problem, capacity);
    const std::vector<std::size_t> some = conflict(problem, solution, capacity);
    if (solution.height <= capacity) {
      EXPECT_TRUE(some.empty());
      continue;
    }
    if (some.empty()) continue;
    ++found;
    EXPECT_GT(greedy(only(problem, some), capacity).height, capacity);
    EXPECT_LT(some.size(), problem.buffers.size());
    for (const std::size_t left_out : some) {
      std::vector<std::size_t> rest = some;
      std::erase(rest, left_out);
      ++members;
      needless += greedy(only(problem, rest), capacity).height > capacity;
    }
  }
  EXPECT_GT(found, 100);
  EXPECT_LT(needless, members / 20);  // greedy may fail with less and succeed with more
}

TEST(Conflict, LeavesOutWhatIsPinnedAndTakesItIntoAccount) {
  Problem problem;
  problem.alignment = 1;
  problem.buffers = {{0, 4, 2, 1}, {0, 4, 3, -1}, {0, 2, 1, -1}};  // pinned at 1: three bytes go above it only
  const Solution solution = greedy(problem, 5);
  EXPECT_EQ(solution.height, 6);
  EXPECT_EQ(conflict(problem, solution, 5), std::vector<std::size_t>{1});
}

}  // namespace
}  // namespace plimsoll::layout
