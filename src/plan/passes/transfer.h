// Helpers for passes that insert copies between tiers (graph/transfer.h): the transfer node next to another node, and the local
// value.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace plimsoll {

// A temporary value for the bytes of `rests`, which is on another tier; without a producer yet.
ValueId add_copy(Graph& graph, ValueId rests, Section section);
// Appends a node to the nodes and the order, in the section and the pass of `place`; its line is the name of `rests`.
NodeId add_transfer(Graph& graph, const OpDef& op, NodeId place, std::vector<ValueId> inputs, ValueId rests);
// Makes `output` the result of the node.
void give(Graph& graph, ValueId output, NodeId producer);
// The same, with a new copy as its result.
ValueId copy_by(Graph& graph, const OpDef& op, NodeId place, std::vector<ValueId> inputs, ValueId rests);

}  // namespace plimsoll
