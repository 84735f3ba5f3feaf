// Fetches and stores for blocks whose values rest on another tier, as a rewrite of the graph. The parameters of a block come in
// while the pass before it runs. Its accumulators come in before the products that add to them and go out after these. With
// narrow paging each matrix comes by itself, while the one before it is used. The nodes are those of graph/transfer.h. Bits
// cannot change, since kernels see the same bytes.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "plan/units.h"

namespace plimsoll {

// For a graph after apply_paging and recomputation. `adds`: the window has several micro-steps, so accumulators come in before
// kernels add to them.
Graph apply_fetching(Graph graph, const std::vector<Unit>& units, bool narrow, bool adds);

}  // namespace plimsoll
