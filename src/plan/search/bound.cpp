#include "plan/search/bound.h"
#include "plan/passes/paging.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

namespace plimsoll {
namespace {

// Sets of backward nodes, one bit each.
using Bits = std::vector<std::uint64_t>;

bool contains(const Bits& bits, int i) {
  const auto at = static_cast<std::size_t>(i);
  return at / 64 < bits.size() && (bits[at / 64] >> at % 64 & 1) != 0;
}

// The state of accumulators in a micro-step. In a window of several micro-steps they live through it. In a window of one they
// begin with their first writer and end with the micro-step, or with their last writer if updates run early.
enum class Accumulators : std::uint8_t { elsewhere, to_the_end, to_the_last_writer };

// Intervals of places. Lists hold those near each place.
class Covering {
 public:
  // [begin, end], both places included.
  void add(int begin, int end, int what) {
    const auto last = static_cast<std::size_t>(end / kPlaces);
    if (last >= near_.size()) near_.resize(last + 1);
    for (auto list = static_cast<std::size_t>(begin / kPlaces); list <= last; ++list) near_[list].push_back(what);
  }
  // The intervals near a place in the order of their addition; some of them may not cover it.
  std::span<const int> near(int place) const {
    const auto list = static_cast<std::size_t>(place / kPlaces);
    return list < near_.size() ? std::span<const int>(near_[list]) : std::span<const int>();
  }

 private:
  static constexpr int kPlaces = 64;
  std::vector<std::vector<int>> near_;
};

// Facts about every order of the backward pass. A gradient made before a step and read after it is live at that step. So is an
// accumulator with an earlier writer; before its first writer the gradient for it is live.
class BackwardOrder {
 public:
  explicit BackwardOrder(const Graph& graph)
      : graph_(graph), index_(graph.nodes.size(), -1), readers_(graph.values.size()), accumulator_of_(graph.values.size(), -1) {
    for (const NodeId id : graph.order) {
      const Node& node = graph.nodes[id];
      if (node.section != Section::micro || !node.backward) continue;
      index_[id] = static_cast<int>(nodes_.size());
      nodes_.push_back(id);
      collect(node, index_[id]);
    }
  }

  // Bytes in addition to `touched` at a moment after all that `from` depends on and before all that depends on `to`. Both
  // are the current node, or a gradient's producer and its reader. 0 unless both are backward nodes.
  std::int64_t held_beside(NodeId from, NodeId to, const std::set<ValueId>& touched, Accumulators accumulators) const {
    const int made = index_[from], read = index_[to];
    if (made < 0 || read < 0) return 0;
    prepare();
    std::int64_t bytes = 0;
    // A node that is earlier in every order is earlier in the order of the graph.
    const auto earlier = [&](int node) { return node <= made && (before(node, made) || (from != to && node == made)); };
    const auto later = [&](int node) { return node >= read && (before(read, node) || (from != to && node == read)); };
    std::set<ValueId> held = touched;
    for (const int each : live_gradients_.near(made)) {
      const ValueId value = gradients_[static_cast<std::size_t>(each)];
      const std::vector<int>& readers = readers_[value];
      if (!earlier(index_[graph_.values[value].producer]) || !std::any_of(readers.begin(), readers.end(), later)) continue;
      if (held.insert(value).second) bytes += bytes_of(value);
    }
    if (accumulators == Accumulators::elsewhere) return bytes;
    if (accumulators == Accumulators::to_the_end) return bytes + accumulators_beside(made, touched, held);
    for (const int each : live_accumulators_.near(made)) {
      const Accumulator& accumulator = accumulators_[static_cast<std::size_t>(each)];
      const std::vector<int>& writers = accumulator.writers;
      const bool begun = std::any_of(writers.begin(), writers.end(), earlier);
      const bool goes_on = begun && std::any_of(writers.begin(), writers.end(), later);
      if (goes_on && !touched.contains(accumulator.value)) bytes += accumulator.bytes;
    }
    return bytes;
  }

  bool backward(NodeId node) const { return node.valid() && index_[node] >= 0; }

 private:
  struct Accumulator {
    ValueId value;
    std::int64_t bytes = 0;
    std::vector<int> writers;                        // backward nodes, ascending
    std::vector<std::pair<ValueId, int>> gradients;  // inputs of the first writer, with the backward nodes that make them
  };

  std::int64_t bytes_of(ValueId value) const { return aligned_bytes(graph_.values[value]).n; }

  // True if a backward node runs before another one in every order.
  bool before(int node, int other) const { return contains(before_[static_cast<std::size_t>(other)], node); }

  // Computed only for moments close to the bound: the ancestors take memory quadratic in the nodes.
  void prepare() const {
    if (before_.size() == nodes_.size()) return;
    for (const NodeId id : nodes_) before_.push_back(ancestors(graph_.nodes[id]));
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      const std::vector<int>& readers = readers_[gradients_[i]];
      const int producer = index_[graph_.values[gradients_[i]].producer];
      if (!readers.empty()) live_gradients_.add(producer, std::max(producer, readers.back()), static_cast<int>(i));
    }
    for (std::size_t i = 0; i < accumulators_.size(); ++i) {
      const Accumulator& accumulator = accumulators_[i];
      live_accumulators_.add(accumulator.writers.front(), accumulator.writers.back(), static_cast<int>(i));
      for (const auto& [gradient, maker] : accumulator.gradients) waiting_for_[gradient].push_back(static_cast<int>(i));
    }
    bytes_of_all_.assign(nodes_.size(), -1);
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

  void collect(const Node& node, int index) {
    for (const ValueId input : node.inputs) readers_[without_views(graph_, input)].push_back(index);
    for (const ValueId output : node.outputs) {
      const Value& value = graph_.values[output];
      if (value.version_of.valid()) {
        if (value.tier == 0 && !is_of_round(graph_.values[value.version_of])) write(value.version_of, node, index);
      } else if (!node.op->view) {
        gradients_.push_back(output);
      }
    }
  }

  void write(ValueId value, const Node& node, int index) {
    if (accumulator_of_[value] < 0) {
      accumulator_of_[value] = static_cast<int>(accumulators_.size());
      Accumulator accumulator{value, bytes_of(value), {}, {}};
      for (const ValueId input : node.inputs) {
        const ValueId gradient = without_views(graph_, input);
        const NodeId producer = graph_.values[gradient].producer;
        const std::pair from(gradient, backward(producer) ? index_[producer] : -1);
        const auto known = std::find(accumulator.gradients.begin(), accumulator.gradients.end(), from);
        if (from.second >= 0 && known == accumulator.gradients.end()) accumulator.gradients.push_back(from);
      }
      accumulators_.push_back(std::move(accumulator));
    }
    accumulators_[static_cast<std::size_t>(accumulator_of_[value])].writers.push_back(index);
  }

  bool begun(const Accumulator& accumulator, int at) const {
    return std::any_of(accumulator.writers.begin(), accumulator.writers.end(), [&](int writer) { return before(writer, at); });
  }

  // The live gradient in place of an accumulator that has not begun; invalid if there is none yet.
  ValueId waits_for(const Accumulator& accumulator, int at) const {
    const auto first = std::find_if(accumulator.gradients.begin(), accumulator.gradients.end(),
                                    [&](const auto& gradient) { return before(gradient.second, at); });
    return first == accumulator.gradients.end() ? ValueId{} : first->first;
  }

  // Bytes of all accumulators, or of the gradients for them.
  std::int64_t bytes_of_all(int at) const {
    std::int64_t& bytes = bytes_of_all_[static_cast<std::size_t>(at)];
    if (bytes >= 0) return bytes;
    bytes = 0;
    for (const Accumulator& accumulator : accumulators_) bytes += begun(accumulator, at) ? accumulator.bytes : 0;
    for (const auto& [gradient, accumulators] : waiting_for_) bytes += bytes_waiting(gradient, at, {});
    return bytes;
  }

  // Bytes of the accumulators that wait for a gradient, at most those of the gradient, without accumulators in `touched`.
  std::int64_t bytes_waiting(ValueId gradient, int at, const std::set<ValueId>& touched) const {
    const auto found = waiting_for_.find(gradient);
    if (found == waiting_for_.end()) return 0;
    std::int64_t bytes = 0;
    for (const int each : found->second) {
      const Accumulator& accumulator = accumulators_[static_cast<std::size_t>(each)];
      if (waits_for(accumulator, at) != gradient || begun(accumulator, at) || touched.contains(accumulator.value)) continue;
      bytes += accumulator.bytes;
    }
    return std::min(bytes, bytes_of(gradient));
  }

  std::int64_t accumulators_beside(int at, const std::set<ValueId>& touched, const std::set<ValueId>& held) const {
    std::int64_t bytes = bytes_of_all(at);
    std::set<ValueId> changed = held;  // gradients whose accumulators count differently
    for (const ValueId value : touched) {
      if (accumulator_of_[value] < 0) continue;
      const Accumulator& accumulator = accumulators_[static_cast<std::size_t>(accumulator_of_[value])];
      if (begun(accumulator, at)) {
        bytes -= accumulator.bytes;
      } else if (const ValueId gradient = waits_for(accumulator, at); gradient.valid()) {
        changed.insert(gradient);
      }
    }
    for (const ValueId gradient : changed) {
      bytes -= bytes_waiting(gradient, at, {});
      if (!held.contains(gradient)) bytes += bytes_waiting(gradient, at, touched);
    }
    return bytes;
  }

  const Graph& graph_;
  PerNode<int> index_;                  // among backward nodes; -1 for the others
  std::vector<NodeId> nodes_;           // backward nodes, in order
  PerValue<std::vector<int>> readers_;  // backward nodes that read a value or a view of it, ascending
  std::vector<ValueId> gradients_;      // made by backward nodes, in their order
  std::vector<Accumulator> accumulators_;
  PerValue<int> accumulator_of_;  // -1 for other values
  // The other fields are computed on demand:
  mutable std::vector<Bits> before_;  // by backward node: those that run before it in every order
  mutable Covering live_gradients_, live_accumulators_;
  mutable std::unordered_map<ValueId, std::vector<int>> waiting_for_;  // by gradient: its accumulators
  mutable std::vector<std::int64_t> bytes_of_all_;                     // by backward node; -1: unknown
};

// The fewest live bytes at one step.
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
      if (is_accumulator(graph_, buffer)) window_ += buffer.bytes.n;
    }
    for (const BufferId id : read_by_optimizer()) update_ += simulation.lifetimes.buffers[id].bytes.n;
    for (int step = 0; step < static_cast<int>(simulation.timeline.steps.size()); ++step) {
      const Step& what = simulation.timeline.steps[static_cast<std::size_t>(step)];
      if (what.kind == Step::Kind::node && what.section == Section::micro) step_of_[what.node] = step;
    }
    add_up_backward();
  }

  // Bounds up to this one need not be exact.
  void set_enough(std::int64_t bytes) { enough_ = bytes; }

  // The norm or the first update needs all accumulators; early updates need no more than their own.
  std::int64_t every_accumulator() const { return always_ + (simulation_.timeline.early_updates ? 0 : update_); }

  std::int64_t at(int step) const {
    const Step& what = simulation_.timeline.steps[static_cast<std::size_t>(step)];
    return needed(step, {}, what.node, what.node);
  }

  // Two inputs of a step are both live when the later of them is made, in either order.
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
  // Accumulators that updates of parameters read: others only add to these.
  std::set<BufferId> read_by_optimizer() const {
    std::set<BufferId> read;
    for (const auto& [changed, accumulator] : update_inputs(graph_, Role::accumulator)) {
      const BufferId buffer = simulation_.lifetimes.buffer_of[accumulator];
      if (graph_.values[changed].role == Role::parameter && buffer.valid()) read.insert(buffer);
    }
    return read;
  }

  // The inputs of a node that nodes of a micro-step make.
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

  // Bytes when `value` is made while `other` exists, both for `reader`. Gradients are made once; other values may be made again.
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
      if (!buffer.persistent && !(in_window && is_accumulator(graph_, buffer))) needed += buffer.bytes.n;
    }
    if (beside.valid() && values.insert(beside).second) needed += aligned_bytes(graph_.values[beside]).n;
    if (needed + most_beside(step, to) <= enough_) return needed;
    return what.kind == Step::Kind::node ? needed + beside_node(step, values, from, to) : needed;
  }

  // Upper bound for the bytes that a step touches and those that live through the window.
  std::int64_t most_touched(const StepAccess& access, ValueId beside) const {
    std::int64_t bytes = always_ + window_ + (beside.valid() ? aligned_bytes(graph_.values[beside]).n : 0);
    for (const auto* values : {&access.reads, &access.writes}) {
      for (const ValueId value : *values) bytes += simulation_.lifetimes.buffers[simulation_.lifetimes.buffer_of[value]].bytes.n;
    }
    return bytes;
  }

  // At each step, the bytes of backward results and of accumulators that do not live through the window: an upper bound for the
  // bytes that every order holds at a node.
  void add_up_backward() {
    const auto steps = static_cast<int>(simulation_.timeline.steps.size());
    backward_live_.resize(static_cast<std::size_t>(steps) + 1, 0);
    for (const Buffer& buffer : simulation_.lifetimes.buffers) {
      const int begin = std::min(buffer.begin, steps), end = std::max(begin, std::min(buffer.end, steps));
      if (buffer.persistent || !buffer.value.valid()) continue;
      const bool counted = is_accumulator(graph_, buffer) ? simulation_.timeline.rounds == 1
                                                          : order_.backward(graph_.values[buffer.value].producer);
      if (!counted) continue;
      backward_live_[static_cast<std::size_t>(begin)] += buffer.bytes.n;
      backward_live_[static_cast<std::size_t>(end)] -= buffer.bytes.n;
    }
    std::partial_sum(backward_live_.begin(), backward_live_.end(), backward_live_.begin());
  }

  std::int64_t most_beside(int step, NodeId to) const {
    const int last = to.valid() && step_of_[to] >= 0 ? step_of_[to] : step;
    const Bytes scratch = least_loss_scratch_ + simulation_.lifetimes.scratch_bytes(step);
    return backward_live_[static_cast<std::size_t>(last)] + scratch.n;
  }

  // Bytes that every order of the backward pass holds at the node, and scratch.
  std::int64_t beside_node(int step, const std::set<ValueId>& values, NodeId from, NodeId to) const {
    const Step& what = simulation_.timeline.steps[static_cast<std::size_t>(step)];
    const Accumulators accumulators = simulation_.timeline.rounds > 1      ? Accumulators::elsewhere
                                      : simulation_.timeline.early_updates ? Accumulators::to_the_last_writer
                                                                           : Accumulators::to_the_end;
    const std::int64_t held = order_.held_beside(from, to, values, accumulators);
    const bool loss = what.section == Section::micro && graph_.nodes[what.node].op->chunked;
    return held + (loss ? least_loss_scratch_ : simulation_.lifetimes.scratch_bytes(step)).n;
  }

  const Simulation& simulation_;
  const Graph& graph_;
  BackwardOrder order_;
  Bytes least_loss_scratch_;
  std::int64_t always_ = 0, window_ = 0;  // bytes of persistent values, of accumulators
  std::int64_t update_ = 0;               // bytes of the accumulators that the optimizer reads
  std::int64_t enough_ = 0;
  std::vector<std::int64_t> backward_live_;  // by step
  PerNode<int> step_of_;                     // by node of the micro-step; -1 for the others
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
