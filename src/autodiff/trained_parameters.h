// The trained parameters of an update section, each with the nodes that update it.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace plimsoll {

struct TrainedParameter {
  ValueId parameter, gradient;  // the gradient's last version
  NodeId update;                // writes the parameter
  std::vector<NodeId> nodes;    // all of them, in order
  NodeId squares;               // of the gradient
  std::vector<ValueId> waits;   // results of other nodes that the update reads
};

// The parameters come in the order of the update.
std::vector<TrainedParameter> trained_parameters(const Graph& graph);

// True if a node has the value among its inputs.
bool reads(const Node& node, ValueId value);
// Persistent values that a node changes, by their origin.
std::vector<ValueId> changed_by(const Graph& graph, const Node& node);

}  // namespace plimsoll
