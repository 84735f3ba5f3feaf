// Host memory that a GPU copies from and to: room for each value that is fed or fetched, and for one part at a time of loading
// and saving. Values that rest on the host are pinned in addition.
#pragma once

#include "graph/graph.h"
#include "plan/timeline.h"

namespace plimsoll {

inline constexpr Bytes kPinnedPart{4 << 20};
inline constexpr Bytes kPinnedAlignment{512};

// An upper bound: values that share a place in the arena also share one here.
Bytes pinned_bytes(const Graph& graph, const Timeline& timeline);

}  // namespace plimsoll
