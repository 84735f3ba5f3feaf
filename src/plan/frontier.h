// Which rungs of a ladder stand for all of them where only a few can be shown: those that divide it evenly.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/plan.h"

namespace plimsoll {

// Indices of at most `count` rungs between the two ends, without the ends, in the ladder's order. A rung's place is its share
// of the way down in bytes (in ratios: ceilings may be many times the floor) plus that of the way up in seconds, so that neither
// the steep end near the floor nor the flat one near the ceiling is left out.
std::vector<std::size_t> spread_rungs(const std::vector<Candidate>& ladder, int count);

}  // namespace plimsoll
