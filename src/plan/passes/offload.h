// Activations that rest on another tier between the passes, as a rewrite of the graph: the value that crosses into one of the
// first blocks goes out after its forward pass has read it, and comes in before its backward pass. The first blocks hold it
// longest; blocks near the loss keep theirs. The nodes are those of graph/transfer.h; bits cannot change, since kernels see the
// same bytes.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"
#include "plan/units.h"

namespace plimsoll {

// The last of the passes. `count`: number of first blocks; a block that several values cross into keeps them. A store is
// waited for when the next store begins, and a fetch begins when the fetch before it ends, so that each has the time between
// two of them. The values rest on tier 1 as far as `near` has room in addition to the values that rest there already,
// otherwise on tier 2.
Graph apply_offload(Graph graph, const std::vector<Unit>& units, std::size_t count, Bytes near);

}  // namespace plimsoll
