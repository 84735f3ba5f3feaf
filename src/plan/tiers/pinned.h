// Memory of the host that a GPU copies from and to: a place for each value that is fed or fetched, and one part at a time of what
// is loaded and saved. Beside what rests on the host, which is pinned as well.
#pragma once

#include "graph/graph.h"
#include "plan/timeline.h"

namespace plimsoll {

inline constexpr Bytes kPinnedPart{4 << 20};
inline constexpr Bytes kPinnedAlignment{512};

// At most: values that share a place in the arena share one here, too.
Bytes pinned_bytes(const Graph& graph, const Timeline& timeline);

}  // namespace plimsoll
