// The entry points of layout: `place` for the planner, `solve` for a given capacity, `minimize` for the lowest height. All
// start with greedy orders, then search for the large buffers exactly, just above the lower bound, and place the small ones
// around them. Work limits count nodes of the search; results are pure functions of the arguments.
//
//   bytes |   +--+  +---+ ++    small buffers: first fit into the gaps and above
//         |+------+ +--------+  large buffers: search
//         |+-----------------+  bottom: buffers that live always
//         +-------------------> steps
#pragma once

#include <cstdint>

#include "plan/layout/problem.h"
#include "plan/layout/search.h"

namespace plimsoll::layout {

struct Placement {
  Solution solution;
  std::int64_t bound = 0;  // proven: no solution is lower
  Work work;               // spent

  bool optimal() const { return solution.height == bound; }
};

// A good layout for a planner: always a solution, no higher than `enough` if one is found in time.
Placement place(const Problem& problem, std::int64_t enough = 0);

// A layout of at most `capacity` bytes. Unlimited when `work_limit` is negative.
SearchResult solve(const Problem& problem, std::int64_t capacity, std::int64_t work_limit);

// The lowest layout found within the limit. With a negative limit it searches until the height is proven minimal, or until the
// gap to the bound is small for the work spent: one per mille after about half a second, one per cent after five.
Placement minimize(const Problem& problem, std::int64_t work_limit);

}  // namespace plimsoll::layout
