// Greedy layout: a portfolio of orders (size, area, life, start, end, contention), each with first fit and best fit; then orders
// in which what came to lie too high goes to the front, as often as some work allows; then what lives at the peak by itself, and
// the others around it. Reads a valid problem; returns the lowest layout found, and stops at once when one comes to `enough`
// times the lower bound. O(n^2) at worst.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/layout/problem.h"

namespace plimsoll::layout {

Solution greedy(const Problem& problem, double enough = 1);

// What ends above the capacity, and all that lives beside any of it.
std::vector<std::size_t> beside_too_high(const Problem& problem, const Solution& solution, std::int64_t capacity);

// The best of the orders alone; the first one that is no higher than `enough`, where one is.
Solution place_quickly(const Problem& problem, std::int64_t enough);

}  // namespace plimsoll::layout
