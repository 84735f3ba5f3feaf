// Activations that rest on another tier between the passes, as a rewrite of the graph: what crosses into one of the first blocks
// goes out once its forward pass has read it, and comes in again before its backward pass does. Those blocks hold it longest;
// nothing near the loss goes. The nodes are those of graph/transfer.h; bits cannot change, since kernels see the same bytes.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"
#include "plan/units.h"

namespace plimsoll {

// The last of the passes. `count`: of the first blocks; one that several values cross into keeps them. Each transfer has as long
// as lies between two of them: what goes out is waited for when the next one begins, and what comes in begins one before. They
// rest on tier 1 as far as `near` has room for them beside what rests there anyhow, else on tier 2.
Graph apply_offload(Graph graph, const std::vector<Unit>& units, std::size_t count, Bytes near);

}  // namespace plimsoll
