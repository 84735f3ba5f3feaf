#include "plan/passes/late.h"

#include <algorithm>

namespace plimsoll {
namespace {

bool begins_transfer(const Graph& graph, NodeId id) { return graph.nodes[id].op->transfer == Transfer::fetch; }

// The nodes of the order from the fetch to the node that it shall follow; empty where it does not come later.
struct Stretch {
  std::vector<NodeId>::const_iterator begin, end;
};
Stretch stretch_of(const Graph& graph, const LateFetch& late) {
  const auto begin = std::find(graph.order.begin(), graph.order.end(), late.fetch);
  const auto after = std::find(begin, graph.order.end(), late.after);
  return {begin, after == graph.order.end() ? begin : after + 1};
}

void move(Graph& graph, const LateFetch& late) {
  const Stretch stretch = stretch_of(graph, late);
  const auto begin = graph.order.begin() + (stretch.begin - graph.order.cbegin());
  std::stable_partition(begin, begin + (stretch.end - stretch.begin), [&](NodeId id) { return !begins_transfer(graph, id); });
}

}  // namespace

// All that begins within the stretch is waited for behind it, and it lies within one section.
bool is_possible(const Graph& graph, const LateFetch& late) {
  if (late.fetch.index >= graph.nodes.size() || late.after.index >= graph.nodes.size()) return false;
  const Stretch stretch = stretch_of(graph, late);
  if (!begins_transfer(graph, late.fetch) || stretch.end - stretch.begin < 2) return false;
  return std::all_of(stretch.begin, stretch.end, [&](NodeId id) {
    const Node& node = graph.nodes[id];
    const bool waits = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      const NodeId producer = graph.values[input].producer;
      return producer.valid() && begins_transfer(graph, producer) &&
             std::find(stretch.begin, stretch.end, producer) != stretch.end;
    });
    return node.section == graph.nodes[late.fetch].section && !waits;
  });
}

std::optional<Graph> apply_late(Graph graph, const std::vector<LateFetch>& late) {
  for (const LateFetch& each : late) {
    if (!is_possible(graph, each)) return {};
    move(graph, each);
  }
  return graph;
}

}  // namespace plimsoll
