// Greedy layout: a portfolio of orders (size, area, life, start, end, contention), each with first fit and best fit, and two of
// them with promotion: buffers that reached past the lower bound come first in the next round. Reads a valid problem. O(n^2) at
// worst.
#pragma once

#include <cstdint>

#include "plan/layout/problem.h"

namespace plimsoll::layout {

// The first of the orders that is no higher than `enough`, or reaches the lower bound; the lowest where none is.
Solution greedy(const Problem& problem, std::int64_t enough = 0);

// First fit by size, then up to `rounds` - 1 times again with what reached past the bound in front, until the height is `enough`:
// a tenth of the work of `greedy` and less.
Solution first_fit(const Problem& problem, int rounds, std::int64_t enough);

}  // namespace plimsoll::layout
