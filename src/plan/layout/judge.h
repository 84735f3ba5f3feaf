// The independent judge of layouts: a sweep over begins and ends that shares no code with the solvers. Reads a problem, a
// solution and optionally a capacity. Returns every violation in words; none for a valid solution.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/layout/problem.h"

namespace plimsoll::layout {

// Checks offsets >= 0, alignment, pins, overlap in time and address, the stated height, and height <= capacity unless it is
// negative.
std::vector<std::string> judge(const Problem& problem, const Solution& solution, std::int64_t capacity = -1);

}  // namespace plimsoll::layout
