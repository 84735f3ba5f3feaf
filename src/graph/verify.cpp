#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "graph/graph.h"

namespace plimsoll {
namespace {

struct Checker {
  const Graph& graph;
  PerValue<char> defined;
  // The value whose bytes each value has, by views and updates in place; the number of updates of these bytes in the present
  // section, and the number when the value was made.
  PerValue<ValueId> bytes_of = PerValue<ValueId>(graph.values.size());
  PerValue<int> updates = PerValue<int>(graph.values.size()), made_at = updates;
  std::set<std::pair<Section, std::uint64_t>> sites = {};

  [[noreturn]] void fail(const Node& node, const std::string& what) const {
    throw internal_error("graph", fmt::format("{} ({}): {}", node.line.text(), node.op->name, what));
  }

  void check_inputs(const Node& node) const {
    for (const ValueId input : node.inputs) {
      if (input.index >= graph.values.size()) fail(node, "an input does not exist");
      const Value& value = graph.values[input];
      if (!defined[input]) fail(node, fmt::format("reads {} before it is produced", value.name.text()));
      // The update may read the present copy of an accumulator on another tier.
      const bool copy = node.section == Section::update && value.copy_of.valid();
      if (value.section && *value.section != node.section && !copy) {
        fail(node, fmt::format("reads {} of another section", value.name.text()));
      }
      const bool older = made_at[input] != updates[bytes_of[input]];
      if (older) fail(node, fmt::format("reads {} after it was updated in place", value.name.text()));
    }
  }

  void check_outputs(const Node& node, NodeId id) {
    for (const ValueId output : node.outputs) {
      if (output.index >= graph.values.size()) fail(node, "an output does not exist");
      const Value& value = graph.values[output];
      if (value.producer != id) fail(node, fmt::format("{} names another producer", value.name.text()));
      if (value.section != node.section) fail(node, fmt::format("yields {} of another section", value.name.text()));
      if (defined[output]) fail(node, fmt::format("{} is produced twice", value.name.text()));
      defined[output] = 1;
    }
    if (node.op->infer(node.attributes, types_of(graph, node.inputs)) != types_of(graph, node.outputs)) {
      fail(node, "stated output types differ from the op's rule");
    }
    std::set<ValueId> updated;
    for (const NodeAlias& alias : aliases_of(graph, node)) {
      if (alias.kind == AliasKind::may_overwrite) continue;
      const ValueId bytes = bytes_of[alias.input];
      if (in_place(alias.kind)) {
        if (!updated.insert(bytes).second) fail(node, fmt::format("updates {} twice", graph.values[bytes].name.text()));
        ++updates[bytes];
      }
      bytes_of[alias.output] = bytes;
      made_at[alias.output] = updates[bytes];
    }
  }

  // Two ops at one site would draw the same noise.
  void check_site(const Node& node) {
    if (!node.op->random || node.backward || node.clone_of.valid() || node.replica_of.valid()) return;
    if (!sites.emplace(node.section, node.site).second) fail(node, "draws its noise at the site of another op");
  }

  // A later section reads a persistent value as updated.
  void begin_section() {
    std::fill(updates.begin(), updates.end(), 0);
    std::fill(made_at.begin(), made_at.end(), 0);
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
    checker.bytes_of[ValueId{i}] = ValueId{i};
  }
  ensure(graph.order.size() == graph.nodes.size(), "graph", "the order does not name every node once");
  Section section = Section::micro;
  for (const NodeId id : graph.order) {
    ensure(id.index < graph.nodes.size(), "graph", "the order names a node that does not exist");
    const Node& node = graph.nodes[id];
    if (node.section < section) checker.fail(node, "sections are out of order");
    if (node.section != section) checker.begin_section();
    section = node.section;
    checker.check_inputs(node);
    checker.check_outputs(node, id);
    checker.check_site(node);
  }
  for (const ValueId result : graph.results) {
    if (!checker.defined[result]) {
      throw internal_error("graph", fmt::format("the result {} is never produced", graph.values[result].name.text()));
    }
  }
}

}  // namespace plimsoll
