#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "graph/graph.h"

namespace plimsoll {
namespace {

struct Checker {
  const Graph& graph;
  PerValue<char> defined;
  PerValue<char> updated = PerValue<char>(graph.values.size());  // in the present section: its bytes are those of a newer version

  [[noreturn]] void fail(const Node& node, const std::string& what) const {
    throw internal_error("graph", fmt::format("{} ({}): {}", node.line, node.op->name, what));
  }

  void check_inputs(const Node& node) const {
    for (const ValueId input : node.inputs) {
      if (input.index >= graph.values.size()) fail(node, "an input does not exist");
      const Value& value = graph.values[input];
      if (!defined[input]) fail(node, fmt::format("reads {} before it is produced", value.name));
      if (value.section && *value.section != node.section) fail(node, fmt::format("reads {} of another section", value.name));
      if (updated[input]) fail(node, fmt::format("reads {} after it was updated in place", value.name));
    }
  }

  void check_outputs(const Node& node, NodeId id) {
    for (const ValueId output : node.outputs) {
      if (output.index >= graph.values.size()) fail(node, "an output does not exist");
      const Value& value = graph.values[output];
      if (value.producer != id) fail(node, fmt::format("{} names another producer", value.name));
      if (value.section != node.section) fail(node, fmt::format("yields {} of another section", value.name));
      if (defined[output]) fail(node, fmt::format("{} is produced twice", value.name));
      defined[output] = 1;
    }
    if (node.op->infer(node.attributes, types_of(graph, node.inputs)) != types_of(graph, node.outputs)) {
      fail(node, "stated output types differ from the op's rule");
    }
    for (const NodeAlias& alias : aliases_of(graph, node)) {
      if (alias.kind == AliasKind::updates) updated[alias.input] = 1;
    }
  }
};

}  // namespace

void verify(const Graph& graph) {
  Checker checker{graph, PerValue<char>(graph.values.size())};
  for (const ValueId result : graph.results) {
    if (result.index >= graph.values.size()) throw internal_error("graph", "a result does not exist");
  }
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    checker.defined[ValueId{i}] = graph.values[ValueId{i}].producer.valid() ? 0 : 1;
  }
  ensure(graph.order.size() == graph.nodes.size(), "graph", "the order does not name every node once");
  Section section = Section::micro;
  for (const NodeId id : graph.order) {
    const Node& node = graph.nodes[id];
    if (node.section < section) checker.fail(node, "sections are out of order");
    if (node.section != section) std::fill(checker.updated.begin(), checker.updated.end(), char{0});
    section = node.section;
    checker.check_inputs(node);
    checker.check_outputs(node, id);
  }
}

}  // namespace plimsoll
