// The units of a model, found from the graph alone. A unit is fetched at once, runs for a whole group before the next one, and
// has a name in a plan. The forward nodes are cut at every place where a single value crosses (plan/regions); the periods of
// periodic runs of equal pieces are the blocks (a transformer's layers; those of each stage of a network that has several kinds).
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace plimsoll {

struct Unit {
  std::string name;           // the model line of its first node up to a number: "h.3"
  std::vector<NodeId> nodes;  // forward nodes of the main section, in order
  std::vector<NodeId> cuts;  // the last node of each piece, whose output alone crosses into the next one; ends with the last node
  bool block = true;         // otherwise it lies outside the blocks: an embedding, a head
};

// By node, the number of the unit that its model line belongs to; gradients and clones have the lines of their forward nodes.
// -1: none.
PerNode<int> units_of_nodes(const Graph& graph, const std::vector<Unit>& units);

// The section of the training pass; without one, of the first forward pass.
Section main_section(const Graph& graph);

// The blocks in forward order, and then the units outside of them. Pieces that repeat nothing are one block if their lines share
// a number ("h.0") and they have several nodes.
std::vector<Unit> find_units(const Graph& graph);
// The number of blocks, which come first.
int block_count(const std::vector<Unit>& units);

}  // namespace plimsoll
