// The fastest schedule within a number of bytes, such that more bytes are never slower. The search climbs a ladder of levels,
// each with the same work for every request, and then bisects between two levels. It rejects a schedule between levels that
// is faster than the level above, because requests with more bytes would not find it.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/replays/search.h"

namespace plimsoll::replays {

// `keep` is the outcome without replays; if it fits, nothing runs again. `work` is the total of all levels. None if no schedule
// is found.
std::optional<Schedule> schedule_within(const Problem& problem, const Outcome& keep, std::int64_t bytes, const Work& work);

}  // namespace plimsoll::replays
