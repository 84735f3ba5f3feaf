// The fastest schedule within a number of bytes, so that more bytes are never slower: up a ladder of levels, each searched with
// the same work for every request, then between two levels by bisection. A schedule there that is faster than the level above is
// rejected, because requests with more bytes would not see it.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/replays/search.h"

namespace plimsoll::replays {

// `keep` is the outcome without replays; if it fits, nothing runs again. `work` is the total of all levels. None if no schedule
// is found.
std::optional<Schedule> schedule_within(const Problem& problem, const Outcome& keep, std::int64_t bytes, const Work& work);

}  // namespace plimsoll::replays
