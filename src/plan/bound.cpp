#include "plan/bound.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace plimsoll {
namespace {

// Sets of backward nodes, one bit each.
using Bits = std::vector<std::uint64_t>;

bool contains(const Bits& bits, int i) {
  const auto at = static_cast<std::size_t>(i);
  return at / 64 < bits.size() && (bits[at / 64] >> at % 64 & 1) != 0;
}

// What holds accumulators in a micro-step. They live through a window of several; in one of its own they begin with their first
// writer and stay to its end, or where updates run early to the last one that adds to them.
enum class Accumulators : std::uint8_t { elsewhere, to_the_end, to_the_last_writer };

// What any order of the backward pass obeys. A gradient that was made before a step and is read after it is live at that step;
// so is an accumulator that was written before, and where it was not, the gradient that it waits for.
class BackwardOrder {
 public:
  explicit BackwardOrder(const Graph& graph) : graph_(graph), index_(graph.nodes.size(), -1), readers_(graph.values.size()) {
    for (const NodeId id : graph.order) {
      const Node& node = graph.nodes[id];
      if (node.section != Section::micro || !node.backward) continue;
      index_[id] = static_cast<int>(nodes_.size());
      nodes_.push_back(id);
      collect(id, node);
    }
  }

  // Bytes beside `touched` at a moment after all that `from` depends on and before all that depends on `to`: both the node that
  // runs, or `from` a gradient's producer and `to` its reader. 0 where `from` is no backward node.
  std::int64_t held_beside(NodeId from, NodeId to, const std::set<ValueId>& touched, Accumulators accumulators) const {
    const int made = index_[from], read = index_[to];
    if (made < 0 || read < 0) return 0;
    find_ancestors();
    std::int64_t bytes = 0;
    const auto earlier = [&](NodeId node) { return before(node, made) || (from != to && node == from); };
    const auto later = [&](int node) {
      return contains(before_[static_cast<std::size_t>(node)], read) || (from != to && node == read);
    };
    const auto crosses = [&](ValueId value) {
      return earlier(graph_.values[value].producer) && std::any_of(readers_[value].begin(), readers_[value].end(), later);
    };
    std::set<ValueId> held = touched;
    for (const ValueId value : gradients_) {
      // In the order of the graph what comes earlier in every order comes earlier, too.
      if (index_[graph_.values[value].producer] > made) break;
      if (readers_[value].empty() || readers_[value].back() < read || touched.contains(value) || !crosses(value)) continue;
      held.insert(value);
      bytes += aligned_bytes(value);
    }
    if (accumulators == Accumulators::elsewhere) return bytes;
    if (accumulators == Accumulators::to_the_end) return bytes + accumulators_beside(made, touched, held);
    for (const auto& [accumulator, writers] : writers_) {
      const bool begun = std::any_of(writers.begin(), writers.end(), earlier);
      const bool goes_on = std::any_of(writers.begin(), writers.end(), [&](NodeId writer) { return later(index_[writer]); });
      if (begun && goes_on && !touched.contains(accumulator)) bytes += aligned_bytes(accumulator);
    }
    return bytes;
  }

  bool backward(NodeId node) const { return node.valid() && index_[node] >= 0; }

 private:
  std::int64_t aligned_bytes(ValueId value) const { return align_up(graph_.values[value].bytes(), kAlignment).n; }

  bool before(NodeId producer, int at) const {
    return producer.valid() && index_[producer] >= 0 && contains(before_[static_cast<std::size_t>(at)], index_[producer]);
  }

  // Only where a moment comes close to the bound: they are the square of the nodes.
  void find_ancestors() const {
    for (std::size_t i = before_.size(); i < nodes_.size(); ++i) before_.push_back(ancestors(graph_.nodes[nodes_[i]]));
  }

  Bits ancestors(const Node& node) const {
    Bits result;
    for (const ValueId input : node.inputs) {
      const NodeId producer = graph_.values[input].producer;
      if (!producer.valid() || index_[producer] < 0) continue;
      const auto at = static_cast<std::size_t>(index_[producer]);
      const Bits& more = before_[at];
      result.resize(std::max({result.size(), more.size(), at / 64 + 1}));
      for (std::size_t i = 0; i < more.size(); ++i) result[i] |= more[i];
      result[at / 64] |= std::uint64_t{1} << at % 64;
    }
    return result;
  }

  void collect(NodeId id, const Node& node) {
    for (const ValueId input : node.inputs) readers_[without_views(graph_, input)].push_back(index_[id]);
    for (const ValueId output : node.outputs) {
      const Value& value = graph_.values[output];
      if (value.version_of.valid()) {
        if (value.tier == 0) writers_[value.version_of].push_back(id);
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
        const ValueId gradient = without_views(graph_, input);
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
  std::vector<NodeId> nodes_;                       // backward nodes, in order
  mutable std::vector<Bits> before_;                // of a backward node: those that run earlier in every order
  PerValue<std::vector<int>> readers_;              // backward nodes that read a value or a view of it
  std::vector<ValueId> gradients_;                  // made by backward nodes
  std::map<ValueId, std::vector<NodeId>> writers_;  // of each accumulator
};

// The least that is live at one step.
class WorkingSets {
 public:
  WorkingSets(const Simulation& simulation, Bytes least_loss_scratch)
      : simulation_(simulation),
        graph_(simulation.graph),
        order_(simulation.graph),
        least_loss_scratch_(least_loss_scratch),
        step_of_(simulation.graph.nodes.size(), -1) {
    for (const Buffer& buffer : simulation.lifetimes.buffers) {
      if (buffer.persistent) always_ += buffer.bytes.n;
      if (is_accumulator(buffer)) window_ += buffer.bytes.n;
    }
    for (const BufferId id : read_by_optimizer()) update_ += simulation.lifetimes.buffers[id].bytes.n;
    for (int step = 0; step < static_cast<int>(simulation.timeline.steps.size()); ++step) {
      const Step& what = simulation.timeline.steps[static_cast<std::size_t>(step)];
      if (what.kind == Step::Kind::node && what.section == Section::micro) step_of_[what.node] = step;
    }
    add_up_backward();
  }

  // What does not exceed this need not be known exactly.
  void set_enough(std::int64_t bytes) { enough_ = bytes; }

  // The norm or the first update needs all of them; where updates run early, none needs more than its own.
  std::int64_t every_accumulator() const { return always_ + (simulation_.timeline.early_updates ? 0 : update_); }

  std::int64_t at(int step) const {
    const Step& what = simulation_.timeline.steps[static_cast<std::size_t>(step)];
    return needed(step, {}, what.node, what.node);
  }

  // Two inputs of a step are both live when the later one of them was made, whichever that is.
  std::int64_t before(int step) const {
    const Step& what = simulation_.timeline.steps[static_cast<std::size_t>(step)];
    if (what.kind != Step::Kind::node || what.section != Section::micro) return 0;
    const std::vector<ValueId> inputs = transients(what.node);
    std::int64_t most = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      for (std::size_t j = i + 1; j < inputs.size(); ++j) {
        most = std::max(most, std::min(while_made(inputs[i], inputs[j], what.node), while_made(inputs[j], inputs[i], what.node)));
      }
    }
    return most;
  }

 private:
  bool is_accumulator(const Buffer& buffer) const {
    return buffer.value.valid() && graph_.values[buffer.value].role == Role::accumulator;
  }

  // Accumulators that updates of parameters read: others only add to these.
  std::set<BufferId> read_by_optimizer() const {
    std::set<BufferId> read;
    for (const NodeId id : graph_.section_order(Section::update)) {
      const std::vector<NodeAlias> aliases = aliases_of(graph_, graph_.nodes[id]);
      const bool updates = std::any_of(aliases.begin(), aliases.end(), [&](const NodeAlias& alias) {
        return alias.kind == AliasKind::updates && graph_.values[alias.input].role == Role::parameter;
      });
      if (!updates) continue;
      for (const ValueId input : graph_.nodes[id].inputs) {
        const BufferId buffer = simulation_.lifetimes.buffer_of[input];
        if (buffer.valid() && is_accumulator(simulation_.lifetimes.buffers[buffer])) read.insert(buffer);
      }
    }
    return read;
  }

  // What a node reads, and nodes of a micro-step made.
  std::vector<ValueId> transients(NodeId node) const {
    std::vector<ValueId> inputs;
    for (const ValueId input : graph_.nodes[node].inputs) {
      const ValueId value = without_views(graph_, input);
      const NodeId producer = graph_.values[value].producer;
      if (!producer.valid() || step_of_[producer] < 0 || graph_.values[value].version_of.valid()) continue;
      if (std::find(inputs.begin(), inputs.end(), value) == inputs.end()) inputs.push_back(value);
    }
    return inputs;
  }

  // When `value` is made while `other` exists, both for `reader`. Gradients are made once; the rest may be made again, as late.
  std::int64_t while_made(ValueId value, ValueId other, NodeId reader) const {
    const NodeId producer = graph_.values[value].producer, others = graph_.values[other].producer;
    const bool again = !order_.backward(producer) && order_.backward(others);
    return needed(step_of_[producer], other, again ? others : producer, again ? reader : producer);
  }

  std::int64_t needed(int step, ValueId beside, NodeId from, NodeId to) const {
    const Timeline& timeline = simulation_.timeline;
    const Step& what = timeline.steps[static_cast<std::size_t>(step)];
    const StepAccess access = access_of(graph_, what, false);
    if (most_touched(access, beside) + most_beside(step, to) <= enough_) return 0;
    std::set<BufferId> touched;
    std::set<ValueId> values;
    for (const auto& some : {access.reads, access.writes}) {
      for (const ValueId value : some) {
        touched.insert(simulation_.lifetimes.buffer_of[value]);
        values.insert(graph_.values[value].version_of.valid() ? graph_.values[value].version_of : without_views(graph_, value));
      }
    }
    const bool in_update = timeline.update.contains(step);
    const bool in_window = timeline.rounds > 1 && (timeline.micro.contains(step) || in_update);
    std::int64_t needed = always_ + (in_window ? (in_update ? update_ : window_) : 0);
    for (const BufferId id : touched) {
      const Buffer& buffer = simulation_.lifetimes.buffers[id];
      if (!buffer.persistent && !(in_window && is_accumulator(buffer))) needed += buffer.bytes.n;
    }
    if (beside.valid() && values.insert(beside).second) needed += align_up(graph_.values[beside].bytes(), kAlignment).n;
    if (needed + most_beside(step, to) <= enough_) return needed;
    return what.kind == Step::Kind::node ? needed + beside_node(step, values, from, to) : needed;
  }

  // No less than what a step touches, beside what lives through the window.
  std::int64_t most_touched(const StepAccess& access, ValueId beside) const {
    std::int64_t bytes = always_ + window_ + (beside.valid() ? align_up(graph_.values[beside].bytes(), kAlignment).n : 0);
    for (const auto* values : {&access.reads, &access.writes}) {
      for (const ValueId value : *values) bytes += simulation_.lifetimes.buffers[simulation_.lifetimes.buffer_of[value]].bytes.n;
    }
    return bytes;
  }

  // At each step, what backward nodes made, and accumulators that do not live through the window: what every order holds beside
  // a node, this one does as well.
  void add_up_backward() {
    const auto steps = static_cast<int>(simulation_.timeline.steps.size());
    backward_live_.resize(static_cast<std::size_t>(steps) + 1, 0);
    for (const Buffer& buffer : simulation_.lifetimes.buffers) {
      const int begin = std::min(buffer.begin, steps), end = std::max(begin, std::min(buffer.end, steps));
      if (buffer.persistent || !buffer.value.valid()) continue;
      const bool counted =
          is_accumulator(buffer) ? simulation_.timeline.rounds == 1 : order_.backward(graph_.values[buffer.value].producer);
      if (!counted) continue;
      backward_live_[static_cast<std::size_t>(begin)] += buffer.bytes.n;
      backward_live_[static_cast<std::size_t>(end)] -= buffer.bytes.n;
    }
    std::partial_sum(backward_live_.begin(), backward_live_.end(), backward_live_.begin());
  }

  std::int64_t most_beside(int step, NodeId to) const {
    const int last = to.valid() && step_of_[to] >= 0 ? step_of_[to] : step;
    const BufferId scratch = simulation_.lifetimes.scratch[static_cast<std::size_t>(step)];
    return backward_live_[static_cast<std::size_t>(last)] + least_loss_scratch_.n +
           (scratch.valid() ? simulation_.lifetimes.buffers[scratch].bytes.n : 0);
  }

  // What orders of the backward pass hold, and scratch.
  std::int64_t beside_node(int step, const std::set<ValueId>& values, NodeId from, NodeId to) const {
    const Step& what = simulation_.timeline.steps[static_cast<std::size_t>(step)];
    const Accumulators accumulators = simulation_.timeline.rounds > 1      ? Accumulators::elsewhere
                                      : simulation_.timeline.early_updates ? Accumulators::to_the_last_writer
                                                                           : Accumulators::to_the_end;
    const std::int64_t held = order_.held_beside(from, to, values, accumulators);
    if (what.section == Section::micro && graph_.nodes[what.node].op->chunked) return held + least_loss_scratch_.n;
    const BufferId scratch = simulation_.lifetimes.scratch[static_cast<std::size_t>(step)];
    return scratch.valid() ? held + simulation_.lifetimes.buffers[scratch].bytes.n : held;
  }

  const Simulation& simulation_;
  const Graph& graph_;
  BackwardOrder order_;
  Bytes least_loss_scratch_;
  std::int64_t always_ = 0, window_ = 0;  // bytes of persistent values, of accumulators
  std::int64_t update_ = 0;               // of those that the optimizer reads
  std::int64_t enough_ = 0;
  std::vector<std::int64_t> backward_live_;  // by step
  PerNode<int> step_of_;                     // of nodes of the micro-step; -1 for the others
};

}  // namespace

Bytes working_set_bound(const Simulation& simulation, Bytes least_loss_scratch, Bytes enough) {
  WorkingSets sets(simulation, least_loss_scratch);
  std::int64_t bound = sets.every_accumulator();
  for (int step = 0; step < static_cast<int>(simulation.timeline.steps.size()) && bound < enough.n; ++step) {
    sets.set_enough(bound);
    bound = std::max({bound, sets.at(step), sets.before(step)});
  }
  return Bytes{bound};
}

}  // namespace plimsoll
