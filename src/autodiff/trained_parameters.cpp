#include "autodiff/trained_parameters.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "ops/update/update.h"

namespace plimsoll {
namespace {

// The nodes of the update that read the gradient, and the node of its squares.
void find_nodes(const Graph& graph, const std::vector<NodeId>& section, TrainedParameter& each) {
  for (const NodeId id : section) {
    const Node& node = graph.nodes[id];
    if (!reads(node, each.gradient)) continue;
    (node.op == &ops::kSumOfSquares ? each.squares : each.nodes.emplace_back()) = id;
  }
  ensure(each.squares.valid(), "sharding", "a gradient without a sum of squares");
}

// Further nodes of an update read its state alone.
void find_nodes_of_state(const Graph& graph, const std::vector<NodeId>& section, TrainedParameter& each) {
  std::set<ValueId> state;
  for (const NodeId id : each.nodes) {
    for (const ValueId changed : changed_by(graph, graph.nodes[id])) {
      if (changed != each.parameter) state.insert(changed);
    }
  }
  for (const NodeId id : section) {
    const auto of_state = [&](ValueId input) { return state.contains(origin_of(graph, input)); };
    const bool known = std::ranges::find(each.nodes, id) != each.nodes.end();
    if (!known && std::ranges::any_of(graph.nodes[id].inputs, of_state)) each.nodes.push_back(id);
  }
  std::ranges::sort(each.nodes, {}, [&](NodeId id) { return std::ranges::find(section, id) - section.begin(); });
}

void find_waits(const Graph& graph, TrainedParameter& each) {
  for (const NodeId id : each.nodes) {
    for (const ValueId input : graph.nodes[id].inputs) {
      const NodeId producer = graph.values[input].producer;
      const bool other = producer.valid() && std::ranges::find(each.nodes, producer) == each.nodes.end();
      const bool known = input == each.gradient || std::ranges::find(each.waits, input) != each.waits.end();
      if (other && !known) each.waits.push_back(input);
    }
  }
}

}  // namespace

bool reads(const Node& node, ValueId value) { return std::ranges::find(node.inputs, value) != node.inputs.end(); }

std::vector<ValueId> changed_by(const Graph& graph, const Node& node) {
  std::vector<ValueId> changed;
  for (const NodeAlias& alias : aliases_of(graph, node)) {
    if (in_place(alias.kind)) changed.push_back(origin_of(graph, alias.input));
  }
  return changed;
}

std::vector<TrainedParameter> trained_parameters(const Graph& graph) {
  const std::vector<NodeId> section = graph.section_order(Section::update);
  std::vector<TrainedParameter> trained;
  for (const NodeId id : section) {
    const Node& node = graph.nodes[id];
    for (const ValueId changed : changed_by(graph, node)) {
      const Value& value = graph.values[changed];
      if (!value.parameter || value.parameter->kind != ParameterKind::trained) continue;
      const auto gradient = std::ranges::find_if(
          node.inputs, [&](ValueId input) { return graph.values[origin_of(graph, input)].role == Role::accumulator; });
      if (gradient != node.inputs.end()) trained.push_back({.parameter = changed, .gradient = *gradient, .update = id});
    }
  }
  for (TrainedParameter& each : trained) {
    find_nodes(graph, section, each);
    find_nodes_of_state(graph, section, each);
    find_waits(graph, each);
  }
  return trained;
}

}  // namespace plimsoll
