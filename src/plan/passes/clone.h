// A node runs again as a clone: the same node with the same attributes and site, so that its bits are the same.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace plimsoll {

// Appends one more node like `original`, which reads `inputs`, to the nodes and the order. Returns its outputs.
std::vector<ValueId> add_clone(Graph& graph, NodeId original, std::vector<ValueId> inputs, bool backward);

}  // namespace plimsoll
