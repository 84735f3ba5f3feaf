#include "plan/bound.h"

#include <algorithm>
#include <map>
#include <set>

namespace plimsoll {
namespace {

// Sets of backward nodes, one bit each.
using Bits = std::vector<bool>;

// What any order of the backward pass obeys. A gradient that was made before a step and is read after it is live at that step;
// so is an accumulator that was written before, and where it was not, the gradient that it waits for.
class BackwardOrder {
 public:
  explicit BackwardOrder(const Graph& graph) : graph_(graph), index_(graph.nodes.size(), -1), readers_(graph.values.size()) {
    for (const NodeId id : graph.order) {
      const Node& node = graph.nodes[id];
      if (node.section != Section::micro || !node.backward) continue;
      index_[id] = static_cast<int>(before_.size());
      before_.push_back(ancestors(node));
      collect(id, node);
    }
  }

  // Bytes beside what the node touches. `writes_window`: each micro-step is a window, so accumulators begin with their writers.
  std::int64_t held_beside(NodeId node, const std::set<ValueId>& touched, bool writes_window) const {
    const int at = index_[node];
    if (at < 0) return 0;
    std::int64_t bytes = 0;
    const auto crosses = [&](ValueId value) {
      if (!before(graph_.values[value].producer, at)) return false;
      return std::any_of(readers_[value].begin(), readers_[value].end(),
                         [&](int reader) { return before_[static_cast<std::size_t>(reader)][static_cast<std::size_t>(at)]; });
    };
    std::set<ValueId> held = touched;
    for (const ValueId value : gradients_) {
      if (touched.contains(value) || !crosses(value)) continue;
      held.insert(value);
      bytes += aligned_bytes(value);
    }
    return writes_window ? bytes + accumulators_beside(at, touched, held) : bytes;
  }

  ValueId root(ValueId value) const {
    while (graph_.values[value].producer.valid() && graph_.nodes[graph_.values[value].producer].op->view) {
      value = graph_.nodes[graph_.values[value].producer].inputs[0];
    }
    return value;
  }

 private:
  std::int64_t aligned_bytes(ValueId value) const { return align_up(graph_.values[value].bytes(), kAlignment).n; }

  bool before(NodeId producer, int at) const {
    return producer.valid() && index_[producer] >= 0 &&
           before_[static_cast<std::size_t>(at)][static_cast<std::size_t>(index_[producer])];
  }

  Bits ancestors(const Node& node) const {
    Bits result;
    for (const ValueId input : node.inputs) {
      const NodeId producer = graph_.values[input].producer;
      if (!producer.valid() || index_[producer] < 0) continue;
      const auto at = static_cast<std::size_t>(index_[producer]);
      const Bits& more = before_[at];
      result.resize(std::max({result.size(), more.size(), at + 1}));
      for (std::size_t i = 0; i < more.size(); ++i) result[i] = result[i] || more[i];
      result[at] = true;
    }
    result.resize(graph_.nodes.size());
    return result;
  }

  void collect(NodeId id, const Node& node) {
    for (const ValueId input : node.inputs) readers_[root(input)].push_back(index_[id]);
    for (const ValueId output : node.outputs) {
      const Value& value = graph_.values[output];
      if (value.version_of.valid()) {
        writers_[value.version_of].push_back(id);
      } else if (!node.op->view) {
        gradients_.push_back(output);
      }
    }
  }

  std::int64_t accumulators_beside(int at, const std::set<ValueId>& touched, const std::set<ValueId>& held) const {
    std::int64_t bytes = 0;
    std::map<ValueId, std::int64_t> waiting;  // by the gradient that is held instead
    for (const auto& [accumulator, writers] : writers_) {
      if (touched.contains(accumulator)) continue;
      if (std::any_of(writers.begin(), writers.end(), [&](NodeId writer) { return before(writer, at); })) {
        bytes += aligned_bytes(accumulator);
        continue;
      }
      for (const ValueId input : graph_.nodes[writers.front()].inputs) {
        const ValueId gradient = root(input);
        if (!before(graph_.values[gradient].producer, at)) continue;
        if (!held.contains(gradient)) waiting[gradient] += aligned_bytes(accumulator);
        break;
      }
    }
    for (const auto& [gradient, accumulators] : waiting) bytes += std::min(aligned_bytes(gradient), accumulators);
    return bytes;
  }

  const Graph& graph_;
  PerNode<int> index_;                              // among backward nodes; -1 for the others
  std::vector<Bits> before_;                        // of a backward node: those that run earlier in every order
  PerValue<std::vector<int>> readers_;              // backward nodes that read a value or a view of it
  std::vector<ValueId> gradients_;                  // made by backward nodes
  std::map<ValueId, std::vector<NodeId>> writers_;  // of each accumulator
};

}  // namespace

Bytes working_set_bound(const Simulation& simulation, Bytes least_loss_scratch) {
  const Graph& graph = simulation.graph;
  const Timeline& timeline = simulation.timeline;
  const auto is_accumulator = [&](const Buffer& buffer) {
    return buffer.value.valid() && graph.values[buffer.value].role == Role::accumulator;
  };
  std::int64_t always = 0, window = 0;
  for (const Buffer& buffer : simulation.lifetimes.buffers) {
    if (buffer.persistent) always += buffer.bytes.n;
    if (is_accumulator(buffer)) window += buffer.bytes.n;
  }
  const BackwardOrder order(graph);
  std::int64_t bound = always + window;  // the norm reads every accumulator
  for (int step = 0; step < static_cast<int>(timeline.steps.size()); ++step) {
    const Step& what = timeline.steps[static_cast<std::size_t>(step)];
    const StepAccess access = access_of(graph, what, false);
    std::set<BufferId> touched;
    std::set<ValueId> values;
    for (const auto& some : {access.reads, access.writes}) {
      for (const ValueId value : some) {
        touched.insert(simulation.lifetimes.buffer_of[value]);
        values.insert(graph.values[value].version_of.valid() ? graph.values[value].version_of : order.root(value));
      }
    }
    const bool in_window = timeline.accumulation > 1 && (timeline.micro.contains(step) || timeline.update.contains(step));
    std::int64_t needed = always + (in_window ? window : 0);
    for (const BufferId id : touched) {
      const Buffer& buffer = simulation.lifetimes.buffers[id];
      if (!buffer.persistent && !(in_window && is_accumulator(buffer))) needed += buffer.bytes.n;
    }
    const BufferId scratch = simulation.lifetimes.scratch[static_cast<std::size_t>(step)];
    if (what.kind == Step::Kind::node) {
      needed += order.held_beside(what.node, values, timeline.accumulation == 1);
      if (what.section == Section::micro && graph.nodes[what.node].op->chunked) {
        needed += least_loss_scratch.n;
      } else if (scratch.valid()) {
        needed += simulation.lifetimes.buffers[scratch].bytes.n;
      }
    }
    bound = std::max(bound, needed);
  }
  return Bytes{bound};
}

}  // namespace plimsoll
