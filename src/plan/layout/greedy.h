// Greedy layout: a portfolio of orders (size, area, life, start, end, contention), each with first fit and best fit, and two
// orders with promotion: buffers that end above the lower bound come first in the next round. Reads a valid problem. O(n^2) at
// worst.
#pragma once

#include <cstdint>

#include "plan/layout/problem.h"

namespace plimsoll::layout {

// The first layout that is no higher than `enough` or the lower bound; otherwise the lowest one.
Solution greedy(const Problem& problem, std::int64_t enough = 0);

// First fit by size, then up to `rounds` - 1 more times with the buffers that end above the lower bound first, until the height
// is at most `enough`. At most a tenth of the work of `greedy`.
Solution first_fit(const Problem& problem, int rounds, std::int64_t enough);

}  // namespace plimsoll::layout
