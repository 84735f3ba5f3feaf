// Single nodes that run again, as a rewrite of the graph. A clone right before another node computes the outputs of its
// original again, and all later nodes read the new ones. The earlier outputs die with their last reader. All recomputation is
// expressed this way.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace plimsoll {

struct NodeReplay {
  NodeId node, before;  // both of the section micro
  friend bool operator==(const NodeReplay&, const NodeReplay&) = default;
};

// True if a node may run again: a forward node without side effects, whose results are no views and whose operands do not stream.
bool may_run_again(const Graph& graph, const Node& node);

// True if each replayed node may run again, before a later node of the micro-step.
bool are_possible(const Graph& graph, const std::vector<NodeReplay>& replays);

// Replays before the same node run in their order. Value ids of the original nodes keep their meaning.
Graph apply_replays(Graph graph, const std::vector<NodeReplay>& replays);

}  // namespace plimsoll
