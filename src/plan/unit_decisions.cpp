#include "plan/unit_decisions.h"

#include <algorithm>
#include <map>

namespace plimsoll {
namespace {

// Nodes of a block that would run again if only the values at its cuts were kept: backward nodes read their results, directly or
// through other such nodes.
class Reached {
 public:
  Reached(const Graph& graph, const std::vector<Unit>& units) : graph_(graph), block_of_(graph.nodes.size(), -1) {
    reached_.resize(graph.nodes.size(), 0);
    for (std::size_t i = 0; i < units.size() && units[i].block; ++i) {
      for (const NodeId id : units[i].nodes) block_of_[id] = static_cast<int>(i);
      for (const NodeId id : units[i].cuts) block_of_[id] = -1;
    }
    for (const NodeId id : graph.section_order(Section::micro)) {
      if (!graph.nodes[id].backward) continue;
      for (const ValueId input : graph.nodes[id].inputs) reach(input, -1);
    }
  }
  bool operator[](NodeId node) const { return reached_[node] != 0; }

 private:
  void reach(ValueId value, int from) {
    const NodeId maker = graph_.values[origin_of(graph_, value)].producer;
    if (!maker.valid() || block_of_[maker] < 0 || reached_[maker] || !may_run_again(graph_, graph_.nodes[maker])) return;
    if (from >= 0 && block_of_[maker] != from) return;
    reached_[maker] = 1;
    for (const ValueId input : graph_.nodes[maker].inputs) reach(input, block_of_[maker]);
  }

  const Graph& graph_;
  PerNode<int> block_of_;
  PerNode<char> reached_;
};

std::string value_of(const Graph& graph, NodeId node, const std::string& unit) {
  std::string name = graph.values[graph.nodes[node].outputs[0]].name;
  if (name.compare(0, unit.size() + 1, unit + ".") == 0) name.erase(0, unit.size() + 1);
  return name;
}

}  // namespace

std::string_view name(UnitMode mode) {
  switch (mode) {
    case UnitMode::keep: return "keep";
    case UnitMode::cheap: return "cheap";
    case UnitMode::recompute: return "recompute";
  }
  return "?";
}

std::vector<UnitDecision> describe_units(const Graph& graph, const std::vector<Unit>& units,
                                         const std::vector<NodeReplay>& replays) {
  PerNode<int> runs(graph.nodes.size(), 0);
  for (const NodeReplay& replay : replays) ++runs[replay.node];
  const Reached reached(graph, units);
  std::vector<UnitDecision> decisions;
  PerNode<char> in_block(graph.nodes.size(), 0);
  NodeId before;  // the last node of the block before
  for (const Unit& unit : units) {
    if (!unit.block) break;
    UnitDecision decision{.unit = unit.name, .values = {}};
    bool all = true;
    for (const NodeId id : unit.nodes) {
      in_block[id] = 1;
      decision.pieces = decision.pieces || runs[id] > 1;
      if (runs[id] > 0 && id != unit.nodes.back()) decision.values.push_back(value_of(graph, id, unit.name));
      if (runs[id] == 0 && reached[id]) all = false;
    }
    decision.joined = before.valid() && runs[before] > 0;
    decision.mode = decision.values.empty() ? UnitMode::keep : all ? UnitMode::recompute : UnitMode::cheap;
    if (decision.mode == UnitMode::recompute) decision.values.clear();
    decisions.push_back(std::move(decision));
    before = unit.nodes.back();
  }
  std::map<std::string, std::size_t> others;  // line -> index of its decision
  for (const NodeId id : graph.order) {
    if (runs[id] == 0 || in_block[id]) continue;
    const std::string line = graph.nodes[id].line;
    const auto [place, fresh] = others.emplace(line, decisions.size());
    if (fresh) decisions.push_back({.unit = line, .mode = UnitMode::cheap, .values = {}});
    decisions[place->second].values.push_back(value_of(graph, id, line));
  }
  return decisions;
}

}  // namespace plimsoll
