#include "plan/passes/replay.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "plan/passes/clone.h"

namespace plimsoll {
namespace {

class Rewrite {
 public:
  Rewrite(Graph graph, const std::vector<NodeReplay>& replays) : result_(std::move(graph)), newest_(result_.values.size()) {
    for (const NodeReplay& replay : replays) before_[replay.before].push_back(replay.node);
  }

  Graph run() {
    for (const NodeId id : std::exchange(result_.order, {})) {
      if (const auto found = before_.find(id); found != before_.end()) {
        for (const NodeId again : found->second) clone(again, id);
      }
      if (result_.nodes[id].section == Section::micro) rewire(id);
      result_.order.push_back(id);
    }
    return std::move(result_);
  }

 private:
  // A view that is made again adds nodes.
  void rewire(NodeId reader) {
    const bool backward = result_.nodes[reader].backward;
    for (std::size_t i = 0; i < result_.nodes[reader].inputs.size(); ++i) {
      const ValueId now = newest(result_.nodes[reader].inputs[i], backward);
      result_.nodes[reader].inputs[i] = now;
    }
  }

  // A view of a new copy is a new view.
  ValueId newest(ValueId value, bool backward) {
    if (value.index >= newest_.size()) return value;
    const NodeId producer = result_.values[value].producer;
    if (!producer.valid() || !result_.nodes[producer].op->view) return newest_[value].valid() ? newest_[value] : value;
    const ValueId viewed = result_.nodes[producer].inputs[0], now = newest(viewed, backward);
    ValueId& view = newest_[value];
    if (now == viewed && !view.valid()) return value;
    const bool known = view.valid() && result_.nodes[result_.values[view].producer].inputs[0] == now;
    if (!known) view = add_clone(result_, producer, {now}, backward).front();
    return newest_[value];
  }

  void clone(NodeId original, NodeId before) {
    const bool backward = result_.nodes[before].backward;
    std::vector<ValueId> inputs = result_.nodes[original].inputs;
    for (ValueId& input : inputs) input = newest(input, backward);
    const std::vector<ValueId> outputs = result_.nodes[original].outputs;
    const std::vector<ValueId> copies = add_clone(result_, original, std::move(inputs), backward);
    for (std::size_t i = 0; i < outputs.size(); ++i) newest_[outputs[i]] = copies[i];
  }

  Graph result_;
  PerValue<ValueId> newest_;  // by original value; invalid while only the original exists
  std::map<NodeId, std::vector<NodeId>> before_;
};

}  // namespace

bool may_run_again(const Graph& graph, const Node& node) {
  if (node.section != Section::micro || node.backward || !node.op->replayable || node.op->view || node.op->chunked) return false;
  if (node.pages.valid()) return false;  // nodes that stream would have to stream again
  const std::vector<NodeAlias> aliases = aliases_of(graph, node);
  return std::none_of(aliases.begin(), aliases.end(), [](const NodeAlias& alias) { return in_place(alias.kind); });
}

bool are_possible(const Graph& graph, const std::vector<NodeReplay>& replays) {
  PerNode<std::size_t> place(graph.nodes.size(), 0);
  for (std::size_t i = 0; i < graph.order.size(); ++i) place[graph.order[i]] = i;
  return std::all_of(replays.begin(), replays.end(), [&](const NodeReplay& replay) {
    if (replay.node.index >= graph.nodes.size() || replay.before.index >= graph.nodes.size()) return false;
    return may_run_again(graph, graph.nodes[replay.node]) && graph.nodes[replay.before].section == Section::micro &&
           place[replay.node] < place[replay.before];
  });
}

Graph apply_replays(Graph graph, const std::vector<NodeReplay>& replays) {
  if (replays.empty()) return graph;
  ensure(are_possible(graph, replays), "replay", "a node that cannot run again there");
  return Rewrite(std::move(graph), replays).run();
}

}  // namespace plimsoll
