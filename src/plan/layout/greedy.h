// Greedy layout: a portfolio of orders (size, area, life, start, end, contention), each with first fit and best fit. Reads a
// valid problem. O(n^2) at worst.
#pragma once

#include <cstdint>

#include "plan/layout/problem.h"

namespace plimsoll::layout {

// The first of the orders that is no higher than `enough`, or reaches the lower bound; the lowest where none is.
Solution greedy(const Problem& problem, std::int64_t enough = 0);

}  // namespace plimsoll::layout
