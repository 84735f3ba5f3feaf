// The training graph of a GPT-2 of three blocks, and questions about a graph that a pass has rewritten.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/transfer.h"
#include "plan/small_models.h"

namespace plimsoll {

struct ThreeBlocks {
  Config config = config_for({3, 64, 4, 12, 301}, 4);
  TrainingGraph model;
  std::vector<Unit> units;

  ThreeBlocks() : model(build_training_graph(config, kTrainAndValidate, 1)), units(find_units(model.graph)) {}
  const Graph& graph() const { return model.graph; }
};

inline const std::string kMatrix = "h.1.mlp.c_fc.weight", kAccumulator = kMatrix + ".grad";
inline constexpr Pages kFewPages{kPageStep, 4};

inline PerNode<std::size_t> places_of(const Graph& graph) {
  PerNode<std::size_t> places(graph.nodes.size());
  for (std::size_t i = 0; i < graph.order.size(); ++i) places[graph.order[i]] = i;
  return places;
}

// The nodes of a section for which `holds` holds, in their order.
template <class Holds>
std::vector<NodeId> nodes_where(const Graph& graph, Section section, const Holds& holds) {
  std::vector<NodeId> found;
  for (const NodeId id : graph.section_order(section)) {
    if (holds(graph.nodes[id])) found.push_back(id);
  }
  return found;
}

inline std::vector<NodeId> readers_of(const Graph& graph, ValueId value, Section section = Section::micro) {
  return nodes_where(graph, section, [&](const Node& node) { return std::ranges::count(node.inputs, value) > 0; });
}

inline std::vector<NodeId> transfers_of_value(const Graph& graph, const OpDef& op, std::string_view name) {
  return nodes_where(graph, Section::micro, [&](const Node& node) { return node.op == &op && node.line.text() == name; });
}

// The kernels of a pass through a block, in their order.
inline std::vector<NodeId> kernels_of_block(const Graph& graph, const std::string& block, bool backward) {
  return nodes_where(graph, Section::micro, [&](const Node& node) {
    return node.op->transfer == Transfer::none && node.backward == backward && node.line.text().starts_with(block + ".");
  });
}

// The names of the persistent values of a role for which `holds` holds.
template <class Holds>
std::set<std::string> names_where(const Graph& graph, Role role, const Holds& holds) {
  std::set<std::string> names;
  for (const Value& value : graph.values) {
    if (value.persistent() && value.role == role && holds(value)) names.insert(value.name.text());
  }
  return names;
}

// The matrices of these blocks, each with `suffix`.
inline std::set<std::string> matrices_of_blocks(const std::vector<std::string>& blocks, const std::string& suffix = "") {
  std::set<std::string> names;
  for (const std::string& block : blocks) {
    for (const char* matrix : {"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"}) {
      names.insert(block + "." + matrix + ".weight" + suffix);
    }
  }
  return names;
}

}  // namespace plimsoll
