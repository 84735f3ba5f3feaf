// The fastest schedule within a number of bytes, so that more bytes are never slower: up a ladder of levels, each of which is
// searched with the same work whatever is asked for, then between two levels by halves. Nothing faster than the level above is
// taken there, because whoever has that many bytes does not see it.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/replays/search.h"

namespace plimsoll::replays {

// `keep` is the outcome without replays, and where it fits nothing runs again. `work` is that of all levels together. Nothing
// where no schedule is found.
std::optional<Schedule> schedule_within(const Problem& problem, const Outcome& keep, std::int64_t bytes, const Work& work);

}  // namespace plimsoll::replays
