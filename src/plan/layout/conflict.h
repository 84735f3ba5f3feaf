// Why a layout is as high as it is: few buffers that do not go together below a capacity.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/layout/problem.h"

namespace plimsoll::layout {

// Of the buffers that live beside what ends above the capacity in this solution, a part that no greedy order places below it:
// each of them was found to be needed for that, one after the other. Greedy orders prove nothing; it is what they stumble over.
// Pinned buffers are always there and not named. Empty where greedy places all of that stretch, which the whole problem keeps it
// from. Of more than 400 the largest are looked at.
std::vector<std::size_t> conflict(const Problem& problem, const Solution& solution, std::int64_t capacity);

}  // namespace plimsoll::layout
