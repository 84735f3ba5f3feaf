#include "plan/passes/grouping.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "plan/lifetimes.h"

namespace plimsoll {
namespace {

using Segment = std::vector<NodeId>;

// True for nodes that run once for all micro-batches of a group: exchanges with other ranks, and the ends of a round's sums.
bool runs_once(const Graph& graph, const Node& node) {
  return node.op->exchange != Exchange::none || std::ranges::any_of(aliases_of(graph, node), [&](const NodeAlias& alias) {
           return alias.kind == AliasKind::updates && graph.values[origin_of(graph, alias.input)].role == Role::accumulator;
         });
}

// The micro-step, cut at each change of the block or the direction. A node that streams is a segment of its own, so that its
// replicas stand together. So are the nodes of a `narrow` pass that use one matrix.
std::vector<Segment> segments_of(const Graph& graph, const std::vector<Unit>& units, bool narrow) {
  constexpr int kOutside = -1;
  const PerNode<int> unit_of = units_of_nodes(graph, units);
  const int blocks = block_count(units);
  std::vector<Segment> segments;
  std::tuple<int, bool, NodeId, ValueId> last;
  ValueId matrix;
  Segment again;  // clones for the next node; they join its segment
  for (const NodeId id : graph.section_order(Section::micro)) {
    const Node& node = graph.nodes[id];
    if (node.clone_of.valid() && !narrow) {
      again.push_back(id);
      continue;
    }
    for (const ValueId input : node.inputs) {
      if (narrow && graph.values[input].tier != 0) matrix = origin_of(graph, input);
    }
    const int block = unit_of[id] < blocks ? unit_of[id] : kOutside;
    const std::tuple key(block, node.backward, node.pages.valid() ? id : NodeId{}, matrix);
    if (segments.empty() || key != last) segments.emplace_back();
    segments.back().insert(segments.back().end(), again.begin(), again.end());
    again.clear();
    segments.back().push_back(id);
    last = key;
  }
  return segments;
}

// The segment that reads or writes each persistent value that a micro-step changes; kSeveral for more than one.
constexpr int kNone = -1, kSeveral = -2;

PerValue<int> segments_of_accumulators(const Graph& graph, const std::vector<Segment>& segments) {
  PerValue<char> changed(graph.values.size(), 0);
  for (const Value& value : graph.values) {
    if (value.version_of.valid() && value.section == Section::micro) changed[value.version_of] = 1;
  }
  PerValue<int> segment_of(graph.values.size(), kNone);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    for (const NodeId id : segments[i]) {
      if (runs_once(graph, graph.nodes[id])) continue;
      for (const auto* values : {&graph.nodes[id].inputs, &graph.nodes[id].outputs}) {
        for (const ValueId value : *values) {
          const ValueId origin = origin_of(graph, value);
          if (!changed[origin]) continue;
          int& segment = segment_of[origin];
          segment = segment == kNone || segment == static_cast<int>(i) ? static_cast<int>(i) : kSeveral;
        }
      }
    }
  }
  return segment_of;
}

bool keeps_order(const Graph& graph, const std::vector<Segment>& segments) {
  const PerValue<int> segment_of = segments_of_accumulators(graph, segments);
  return std::find(segment_of.begin(), segment_of.end(), kSeveral) == segment_of.end();
}

class Rewrite {
 public:
  Rewrite(Graph graph, const std::vector<Unit>& units, std::int64_t group, bool narrow)
      : result_(std::move(graph)),
        segments_(segments_of(result_, units, narrow)),
        present_(result_.values.size()),
        replicas_(static_cast<std::size_t>(group - 1), PerValue<ValueId>(result_.values.size())) {
    ensure(keeps_order(result_, segments_), "grouping", "several segments add to one accumulator");
  }

  Graph run() {
    replicate_inputs();
    std::vector<NodeId> rest = std::exchange(result_.order, {});
    std::erase_if(rest, [&](NodeId id) { return result_.nodes[id].section == Section::micro; });
    for (const Segment& segment : segments_) {
      for (std::size_t i = 0; i < replicas_.size(); ++i) replicate(segment, i);
      for (const NodeId id : segment) follow(id);
    }
    result_.order.insert(result_.order.end(), rest.begin(), rest.end());
    return std::move(result_);
  }

 private:
  void replicate_inputs() {
    const std::size_t count = result_.values.size();
    for (std::size_t replica = 0; replica < replicas_.size(); ++replica) {
      for (std::size_t i = 0; i < count; ++i) {
        if (result_.values[ValueId{i}].fed_in(Section::micro)) add_value(ValueId{i}, replica, NodeId{});
      }
    }
  }

  ValueId add_value(ValueId original, std::size_t replica, NodeId producer) {
    Value value = result_.values[original];
    value.name = value.name + fmt::format("#{}", replica + 1);
    value.producer = producer;
    value.replica_of = original;
    const ValueId id = result_.values.push_back(std::move(value));
    return replicas_[replica][original] = id;
  }

  void replicate(const Segment& segment, std::size_t replica) {
    PerValue<ValueId>& own = replicas_[replica];
    for (const NodeId original : segment) {
      if (runs_once(result_, result_.nodes[original])) continue;
      Node node = result_.nodes[original];
      const NodeId id{result_.nodes.size()};
      for (ValueId& input : node.inputs) input = own[input].valid() ? own[input] : newest(input);
      for (ValueId& output : node.outputs) {
        output = add_value(output, replica, id);
        remember(output);
      }
      node.replica_of = original;
      result_.nodes.push_back(std::move(node));
      result_.order.push_back(id);
    }
  }

  // The nodes of the last micro-batch continue from the sums of the others.
  void follow(NodeId id) {
    Node& node = result_.nodes[id];
    for (ValueId& input : node.inputs) input = newest(input);
    for (const ValueId output : node.outputs) remember(output);
    result_.order.push_back(id);
  }

  ValueId newest(ValueId value) const {
    const Value& what = result_.values[value];
    return (what.persistent() || is_of_round(what)) && present_[value].valid() ? present_[value] : value;
  }
  void remember(ValueId value) {
    if (const ValueId origin = result_.values[value].version_of; origin.valid()) present_[origin] = value;
  }

  Graph result_;
  std::vector<Segment> segments_;
  PerValue<ValueId> present_;                // the newest version of a persistent value
  std::vector<PerValue<ValueId>> replicas_;  // for each micro-batch but the last: the replica of each value of the graph
};

}  // namespace

bool may_group(const Graph& graph, const std::vector<Unit>& units) {
  return block_count(units) > 0 && keeps_order(graph, segments_of(graph, units, false));
}

std::string why_not_grouped(const Graph& graph, const std::vector<Unit>& units, std::int64_t group) {
  if (group == 1) return {};
  if (block_count(units) == 0) return "the model has no repeated blocks";
  if (!may_group(graph, units)) return "several blocks of this model add to one gradient, and a group would change their order";
  const auto nodes = static_cast<std::int64_t>(graph.section_order(Section::micro).size());
  if (group > kMostGroup || group * nodes > kMostGroupedNodes) {
    return fmt::format("{} micro-batches of {} nodes each are too many for a group", group, nodes);
  }
  return {};
}

Graph apply_grouping(Graph graph, const std::vector<Unit>& units, std::int64_t group, bool narrow) {
  return group == 1 ? std::move(graph) : Rewrite(std::move(graph), units, group, narrow).run();
}

std::vector<ValueId> replicas_of(const Graph& graph, ValueId value) {
  ensure(value.valid(), "grouping", "replicas of no value");
  std::vector<ValueId> replicas;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[ValueId{i}].replica_of == value) replicas.push_back(ValueId{i});
  }
  replicas.push_back(value);
  return replicas;
}

}  // namespace plimsoll
