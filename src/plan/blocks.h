// The repeated blocks of a model, found from the graph alone: the forward nodes are cut wherever a single value crosses, the
// pieces are hashed by structure, and the periods of periodic runs of equal pieces are the blocks (a transformer's layers; the
// stages of a network that has several kinds).
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"

namespace plimsoll {

struct GraphBlock {
  std::string name;           // the part of the model line that its nodes share: "h.3"
  std::vector<NodeId> nodes;  // forward nodes of the main section, in order
  std::vector<NodeId> cuts;  // the last node of each piece, whose output alone crosses into the next one; ends with the last node
};

// The block that a model line belongs to, by its number; gradients and clones have the lines of their forward nodes.
std::unordered_map<Symbol, int> blocks_of_lines(const Graph& graph, const std::vector<GraphBlock>& blocks);

// Of the training pass; without one of the first forward pass.
Section main_section(const Graph& graph);

// In forward order. Where nothing repeats, one block at the most: everything between the single nodes at both ends.
std::vector<GraphBlock> find_blocks(const Graph& graph);

}  // namespace plimsoll
