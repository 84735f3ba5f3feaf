#include "plan/time_bound.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "plan/simulation.h"
#include "plan/step_roles.h"

namespace plimsoll {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

ValueId viewed(const Graph& graph, ValueId value) {
  while (graph.values[value].producer.valid() && graph.nodes[graph.values[value].producer].op->view) {
    value = graph.nodes[graph.values[value].producer].inputs[0];
  }
  return value;
}

// Which nodes of a micro-step run after a node in every order, and which before.
struct Around {
  PerNode<char> later, earlier;

  Around(const Graph& graph, NodeId middle) : later(graph.nodes.size()), earlier(graph.nodes.size()) {
    const std::vector<NodeId> order = graph.section_order(Section::micro);
    later[middle] = earlier[middle] = 1;
    for (const NodeId id : order) {
      for (const ValueId input : graph.nodes[id].inputs) {
        const NodeId producer = graph.values[input].producer;
        if (producer.valid() && later[producer] != 0) later[id] = 1;
      }
    }
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      for (const ValueId input : graph.nodes[*id].inputs) {
        const NodeId producer = graph.values[input].producer;
        if (producer.valid() && earlier[*id] != 0) earlier[producer] = 1;
      }
    }
    later[middle] = earlier[middle] = 0;
  }
};

bool is_sum(const Graph& graph, const Buffer& buffer) {
  return buffer.value.valid() && graph.values[buffer.value].role == Role::accumulator;
}

// The step at which most is live of those that run backward nodes.
std::optional<int> highest_backward(const Simulation& simulation) {
  const LiveProfile steady = live_profile(simulation.lifetimes, simulation.timeline, Phase::steady);
  const int first = simulation.timeline.micro.begin;
  std::optional<int> best;
  for (int step = first; step < simulation.timeline.micro.end; ++step) {
    const Step& what = simulation.timeline.steps[static_cast<std::size_t>(step)];
    if (what.kind != Step::Kind::node || what.section != Section::micro || !simulation.graph.nodes[what.node].backward) continue;
    const auto live = [&](int at) { return steady.bytes[static_cast<std::size_t>(at - first)]; };
    if (!best || live(step) > live(*best)) best = step;
  }
  return best;
}

}  // namespace

TimeCuts::TimeCuts(BatchModel& model, bool saves) : rounds_(model.accumulation) {
  const Simulation simulation = simulate(model.graph, model.accumulation, 1, saves, model.kernels);
  const Graph& graph = simulation.graph;
  for (const Buffer& buffer : simulation.lifetimes.buffers) {
    if (is_sum(graph, buffer)) sums_ += rounds_ > 1 ? buffer.bytes.n : 0;
    if (!buffer.persistent) continue;
    persistent_ += buffer.bytes.n;
    const Role role = graph.values[buffer.value].role;
    if (role == Role::parameter || role == Role::optimizer_state) movable_ += buffer.bytes.n;
  }
  cuts_.push_back(cut_at(simulation, find_losses(simulation).front(), model.kernels));
  if (const std::optional<int> step = highest_backward(simulation)) cuts_.push_back(cut_at(simulation, *step, model.kernels));
}

TimeCuts::Cut TimeCuts::cut_at(const Simulation& simulation, int step, NodeKernels& kernels) const {
  const Graph& graph = simulation.graph;
  const NodeId middle = simulation.timeline.steps[static_cast<std::size_t>(step)].node;
  Cut cut{.loss = is_loss(simulation, step), .again = {}};
  std::set<BufferId> touched;
  std::set<ValueId> seen;
  const auto touch = [&](ValueId value) {
    touched.insert(simulation.lifetimes.buffer_of[value]);
    seen.insert(viewed(graph, value));
  };
  const Node& node = graph.nodes[middle];
  std::ranges::for_each(node.inputs, touch);
  // What may lie on an input counts with that one.
  const std::vector<NodeAlias> aliases = aliases_of(graph, node);
  for (const ValueId output : node.outputs) {
    if (std::ranges::find(aliases, output, &NodeAlias::output) == aliases.end()) touch(output);
  }
  for (const BufferId id : touched) {
    if (!id.valid() || simulation.lifetimes.buffers[id].persistent) continue;
    const Buffer& buffer = simulation.lifetimes.buffers[id];
    if (!is_sum(graph, buffer)) cut.touched += buffer.bytes.n;
    if (is_sum(graph, buffer) && rounds_ == 1) cut.own += buffer.bytes.n;
  }
  const BufferId scratch = simulation.lifetimes.scratch[static_cast<std::size_t>(step)];
  if (scratch.valid() && !cut.loss) cut.own += simulation.lifetimes.buffers[scratch].bytes.n;

  // Forward nodes that the loss depends on have run by then.
  const Around around(graph, middle),
      loss(graph, simulation.timeline.steps[static_cast<std::size_t>(find_losses(simulation).front())].node);
  std::map<NodeId, std::int64_t> made;
  for (const NodeId id : graph.section_order(Section::micro)) {
    if (!graph.nodes[id].backward || around.later[id] == 0) continue;
    for (const ValueId input : graph.nodes[id].inputs) {
      const ValueId value = viewed(graph, input);
      const NodeId producer = graph.values[value].producer;
      const bool saved = producer.valid() && !graph.nodes[producer].backward && loss.earlier[producer] != 0;
      if (!saved || graph.values[value].version_of.valid() || !seen.insert(value).second) continue;
      made[producer] += align_up(graph.values[value].bytes(), kAlignment).n;
    }
  }
  for (const auto& [producer, bytes] : made) {
    cut.saved += bytes;
    if (graph.nodes[producer].op->replayable) cut.again.push_back({bytes, kernels.of(graph, producer, 1).add.seconds});
  }
  std::ranges::stable_sort(cut.again, {}, [](const Saved& saved) { return saved.seconds / static_cast<double>(saved.bytes); });
  return cut;
}

// Of all micro-batches, each of which is short of so many bytes; the first one of a window has no sums yet.
double TimeCuts::all_again(const Cut& cut, double bytes) const {
  const auto once = [&](double left) {
    double seconds = 0;
    for (const Saved& saved : cut.again) {
      if (left <= 0) break;
      const auto own = static_cast<double>(saved.bytes);
      seconds += std::min(1.0, left / own) * saved.seconds;
      left -= own;
    }
    return left > 0 ? kNever : seconds;
  };
  const double later = rounds_ > 1 ? static_cast<double>(rounds_ - 1) * once(bytes) : 0;
  return later + once(bytes - static_cast<double>(sums_));
}

// What may leave memory within some seconds. Persistent values pass a link once each way, whatever the number of micro-batches;
// what blocks hold passes it in each of them. Past a tier's room the next link is passed as well.
struct TimeCuts::Links {
  struct Link {
    double rate;
    double before;  // bytes that rest nearer
  };
  std::vector<Link> links;
  double room = 0, persistent, rounds;

  Links(const PlanRequest& request, const Machine& machine, std::int64_t movable, std::int64_t rounds)
      : persistent(static_cast<double>(movable)), rounds(static_cast<double>(rounds)) {
    for (std::size_t i = 0; i < request.beyond.size(); ++i) {
      const auto *in = link_between(machine, i + 1, i), *out = link_between(machine, i, i + 1);
      if (in == nullptr || out == nullptr) break;
      links.push_back({std::min(in->alone(), out->alone()), room});
      room += static_cast<double>(request.beyond[i].n);
    }
  }

  // Bytes that rest elsewhere while a loss runs.
  double most_within(double seconds) const {
    if (links.empty()) return 0;
    const double passes = links.front().rate * seconds, once = std::min(persistent, passes);
    double most = std::min(room, once + (passes - once) / rounds);
    for (const Link& link : links) most = std::min(most, link.before + link.rate * seconds);
    return most;
  }

  double seconds_for(double bytes) const {
    const double once = std::min(persistent, bytes);
    double seconds = links.empty() ? 0 : (once + (bytes - once) * rounds) / links.front().rate;
    for (const Link& link : links) seconds = std::max(seconds, (bytes - link.before) / link.rate);
    return seconds;
  }
};

TimeBound TimeCuts::at(const Cut& cut, Bytes arena, double kernels, Bytes scratch, const Links& links) const {
  // Where accumulators may leave memory as they are written and operands come in ranges, none of these need be there.
  const std::int64_t own = links.links.empty() ? cut.own : 0;
  const std::int64_t live = persistent_ + sums_ + cut.touched + own + cut.saved + (cut.loss ? scratch.n : 0);
  const auto short_of = static_cast<double>(std::max<std::int64_t>(0, live - arena.n));
  const auto again = [&](double seconds) { return all_again(cut, short_of - links.most_within(seconds)); };
  constexpr int kDoublings = 60, kHalvings = 50;
  double low = kernels, high = kernels + again(kernels);
  for (int i = 0; i < kDoublings && high == kNever && !links.links.empty(); ++i) {
    low *= 2;
    high = low + again(low);
  }
  if (high == kNever) return {kNever, kNever, 0};
  low = kernels;
  for (int i = 0; i < kHalvings && high > low; ++i) {
    const double middle = (low + high) / 2;
    (kernels + again(middle) <= middle ? high : low) = middle;
  }
  const double elsewhere = std::min(short_of, links.most_within(high));
  return {.compute = kernels + again(high), .again = again(high), .transfers = links.seconds_for(elsewhere)};
}

TimeBound TimeCuts::within(Bytes arena, double kernels, Bytes loss_scratch, const PlanRequest& request,
                           const Machine& machine) const {
  const Links links(request, machine, movable_ + sums_, rounds_);
  TimeBound most;
  for (const Cut& cut : cuts_) {
    const TimeBound bound = at(cut, arena, kernels, loss_scratch, links);
    if (bound.seconds() > most.seconds()) most = bound;
  }
  return most;
}

}  // namespace plimsoll
