// The units of a model, found from the graph alone. A unit is fetched at once, runs for a whole group before the next one,
// and has a name in a plan. The forward nodes are cut into pieces at every place that at most one value crosses
// (plan/replays/regions). If a sequence of pieces repeats, each repetition is a block: a layer of a transformer, or of one
// stage of a network.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace plimsoll {

struct Unit {
  std::string name;           // the model line of its first node up to a number: "h.3"
  std::vector<NodeId> nodes;  // forward nodes of the main section, in order
  std::vector<NodeId> cuts;   // the last node of each piece; its output alone crosses into the next piece
  bool block = true;          // otherwise it lies outside the blocks: an embedding, a head
};

// By node: the index of the unit of its model line; -1: none. Gradients and clones have the lines of their forward nodes.
PerNode<int> units_of_nodes(const Graph& graph, const std::vector<Unit>& units);

// The section of the training pass; without one, of the first forward pass.
Section main_section(const Graph& graph);

// The blocks in forward order, and then the units outside of them. Pieces that repeat nothing are one block if their lines share
// a number ("h.0") and they have several nodes.
std::vector<Unit> find_units(const Graph& graph);
// The number of blocks, which come first.
int block_count(const std::vector<Unit>& units);

}  // namespace plimsoll
