// Greedy layout: a portfolio of orders (size, area, life, start, end, contention), each with first fit and best fit; then orders
// in which what came to lie too high goes to the front, as often as some work allows. Reads a valid problem; returns the lowest
// layout found, and stops at once when one comes to `enough` times the lower bound. O(n^2) at worst, with a small constant.
#pragma once

#include "plan/layout/problem.h"

namespace plimsoll::layout {

Solution greedy(const Problem& problem, double enough = 1);

}  // namespace plimsoll::layout
