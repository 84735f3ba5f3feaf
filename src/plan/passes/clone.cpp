#include "plan/passes/clone.h"

#include <utility>

namespace plimsoll {

std::vector<ValueId> add_clone(Graph& graph, NodeId original, std::vector<ValueId> inputs, bool backward) {
  Node node = graph.nodes[original];
  node.inputs = std::move(inputs);
  node.clone_of = original;
  node.backward = backward;
  const NodeId id{graph.nodes.size()};
  for (ValueId& output : node.outputs) {
    Value value = graph.values[output];
    value.role = Role::recomputed;
    value.producer = id;
    value.clone_of = output;
    value.name = value.name + "'";
    output = graph.values.push_back(std::move(value));
  }
  std::vector<ValueId> outputs = node.outputs;
  graph.nodes.push_back(std::move(node));
  graph.order.push_back(id);
  return outputs;
}

}  // namespace plimsoll
