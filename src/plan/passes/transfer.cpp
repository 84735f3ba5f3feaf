#include "plan/passes/transfer.h"

#include <utility>

namespace plimsoll {

ValueId add_copy(Graph& graph, ValueId rests, Section section) {
  Value copy;
  copy.name = graph.values[rests].name + ".here";
  copy.type = graph.values[rests].type;
  copy.role = Role::pages;
  copy.section = section;
  copy.copy_of = rests;
  return graph.values.push_back(std::move(copy));
}

NodeId add_transfer(Graph& graph, const OpDef& op, NodeId place, std::vector<ValueId> inputs, ValueId rests) {
  const Section section = graph.nodes[place].section;
  const bool backward = graph.nodes[place].backward;
  const NodeId id = graph.nodes.push_back(
      {.op = &op, .inputs = std::move(inputs), .section = section, .backward = backward, .line = graph.values[rests].name});
  graph.order.push_back(id);
  return id;
}

void give(Graph& graph, ValueId output, NodeId producer) {
  graph.nodes[producer].outputs = {output};
  graph.values[output].producer = producer;
}

ValueId copy_by(Graph& graph, const OpDef& op, NodeId place, std::vector<ValueId> inputs, ValueId rests) {
  const NodeId id = add_transfer(graph, op, place, std::move(inputs), rests);
  const ValueId copy = add_copy(graph, rests, graph.nodes[id].section);
  give(graph, copy, id);
  return copy;
}

}  // namespace plimsoll
