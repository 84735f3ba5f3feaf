// How a pass puts a copy between tiers into the graph (graph/transfer.h): the node beside another one, and the value here.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace plimsoll {

// A value for the bytes of `rests`, which is on another tier, for a while; of no producer yet.
ValueId add_copy(Graph& graph, ValueId rests, Section section);
// Appends a node to the nodes and the order, in the section and the pass of `place`; its line is the name of what rests.
NodeId add_transfer(Graph& graph, const OpDef& op, NodeId place, std::vector<ValueId> inputs, ValueId rests);
// Makes `output` what the node yields.
void give(Graph& graph, ValueId output, NodeId producer);
// Such a node that yields a copy.
ValueId copy_by(Graph& graph, const OpDef& op, NodeId place, std::vector<ValueId> inputs, ValueId rests);

}  // namespace plimsoll
