// What blocks read and write of values that rest on another tier, as a rewrite of the graph: a pass through a block fetches its
// parameters while the pass before it runs, and its accumulators come and go around the products that add to them; where that is
// too much, each matrix for itself, while the one before it is used. The nodes are those of graph/transfer.h; bits cannot change,
// since kernels see the same bytes.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "plan/units.h"

namespace plimsoll {

// For a graph in which apply_paging has said what rests where, after recomputation. `adds`: the window has several micro-steps,
// so accumulators come in before something is added to them.
Graph apply_fetching(Graph graph, const std::vector<Unit>& units, bool narrow, bool adds);

}  // namespace plimsoll
