// Single nodes that run again, as a rewrite of the graph: before another node a clone makes new copies of what the node made, and
// everything from there on reads those. The copies before them die with their last reader. All recomputation comes to this.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace plimsoll {

struct NodeReplay {
  NodeId node, before;  // both of the section micro
  friend bool operator==(const NodeReplay&, const NodeReplay&) = default;
};

// Whether a node may run again: a forward node without side effects, whose results are no views and whose operands do not stream.
bool may_run_again(const Graph& graph, const Node& node);

// Whether every replay is of a node that may run again, before a later one.
bool are_possible(const Graph& graph, const std::vector<NodeReplay>& replays);

// Replays before the same node run in their order. Value ids of the original nodes keep their meaning.
Graph apply_replays(Graph graph, const std::vector<NodeReplay>& replays);

}  // namespace plimsoll
