// The entry points of layout: `place` for the planner (greedy, then the exact search just above the lower bound), `solve` for a
// given capacity, `minimize` for the lowest height. Work limits count nodes of the search; results are pure functions of the
// arguments.
#pragma once

#include <cstdint>

#include "plan/layout/problem.h"
#include "plan/layout/search.h"

namespace plimsoll::layout {

struct Placement {
  Solution solution;
  std::int64_t bound = 0;  // no solution is lower: proven
  bool optimal = false;    // height == bound
  std::int64_t nodes = 0;  // spent
};

// Nodes that `place` spends where the caller does not say.
inline constexpr std::int64_t kPlaceNodes = 40'000;

// A good layout for a planner: always a solution, within one per cent of the bound where the search finds it in time.
// `known`: what greedy has found, where it has been asked.
Placement place(const Problem& problem, std::int64_t work_limit = kPlaceNodes, const Solution* known = nullptr);

// A layout of at most `capacity` bytes. Unlimited when `work_limit` is negative.
SearchResult solve(const Problem& problem, std::int64_t capacity, std::int64_t work_limit);

// The lowest layout found within the limit; with a negative limit it searches until the height is proven minimal.
Placement minimize(const Problem& problem, std::int64_t work_limit);

}  // namespace plimsoll::layout
