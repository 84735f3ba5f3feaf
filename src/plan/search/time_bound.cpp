#include "plan/search/time_bound.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "plan/simulation.h"
#include "plan/step_roles.h"

namespace plimsoll {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Nodes of a micro-step that run after a node in every order, and those that run before it.
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

std::int64_t padding_of(const Value& value) { return (aligned_bytes(value) - value.bytes()).n; }

bool is_frozen(const Value& value) { return value.parameter && value.parameter->kind == ParameterKind::frozen; }

// The step with the most live bytes among nodes that depend on the loss's gradient.
std::optional<int> highest_backward(const Simulation& simulation, const Around& loss) {
  const LiveProfile steady = live_profile(simulation.lifetimes, simulation.timeline, Phase::steady);
  const int first = simulation.timeline.micro.begin;
  std::optional<int> best;
  for (int step = first; step < simulation.timeline.micro.end; ++step) {
    const Step& what = simulation.timeline.steps[static_cast<std::size_t>(step)];
    if (what.kind != Step::Kind::node || what.section != Section::micro || loss.later[what.node] == 0) continue;
    const auto live = [&](int at) { return steady.bytes[static_cast<std::size_t>(at - first)]; };
    if (!best || live(step) > live(*best)) best = step;
  }
  return best;
}

}  // namespace

TimeCuts::TimeCuts(BatchModel& model, bool saves) : accumulation_(model.accumulation) {
  const Simulation simulation = simulate(model.graph, model.accumulation, 1, saves, model.kernels);
  const Graph& graph = simulation.graph;
  for (const Buffer& buffer : simulation.lifetimes.buffers) {
    if (is_accumulator(graph, buffer) && accumulation_ > 1) {
      sums_ += buffer.bytes.n;
      sums_padding_ += padding_of(graph.values[buffer.value]);
    }
    if (!buffer.persistent) continue;
    persistent_ += buffer.bytes.n;
    const Role role = graph.values[buffer.value].role;
    if (role != Role::parameter && role != Role::optimizer_state) continue;
    (is_frozen(graph.values[buffer.value]) ? frozen_ : movable_) += buffer.bytes.n;
    padding_ += padding_of(graph.values[buffer.value]);
  }
  if (!simulation.timeline.trains()) return;
  const int loss = find_losses(simulation).front();
  const Around around(graph, simulation.timeline.steps[static_cast<std::size_t>(loss)].node);
  cuts_.push_back(cut_at(simulation, loss, around.earlier, model));
  if (const std::optional<int> step = highest_backward(simulation, around)) {
    cuts_.push_back(cut_at(simulation, *step, around.earlier, model));
  }
  one_round_ = end_of(model, 1, saves);
  rounds_ = end_of(model, std::max<std::int64_t>(accumulation_, 2), saves);
}

TimeCuts::End TimeCuts::end_of(BatchModel& model, std::int64_t rounds, bool saves) {
  const Graph& graph = model.graph;
  const Timeline timeline = make_timeline(graph, rounds, saves);
  End end{.apart = !timeline.early_updates};
  std::set<ValueId> made, read, written;
  for (int step = timeline.update.begin; step < timeline.update.end; ++step) {
    const Step& what = timeline.steps[static_cast<std::size_t>(step)];
    if (what.kind != Step::Kind::node) continue;
    const Node& node = graph.nodes[what.node];
    end.kernels += model.kernels.of(graph, what.node, 1).add.seconds;
    for (const ValueId input : node.inputs) read.insert(origin_of(graph, without_views(graph, input)));
    for (const ValueId output : node.outputs) {
      const ValueId origin = origin_of(graph, without_views(graph, output));
      const Role role = graph.values[origin].role;
      (role == Role::parameter || role == Role::optimizer_state ? written : made).insert(origin);
    }
  }
  for (const ValueId value : read) {
    const bool there = !made.contains(value) || graph.values[value].role == Role::accumulator;
    if (there) end.read += graph.values[value].bytes().n;
  }
  for (const ValueId value : written) end.written += graph.values[value].bytes().n;
  return end;
}

TimeCuts::Cut TimeCuts::cut_at(const Simulation& simulation, int step, const PerNode<char>& before_loss,
                               BatchModel& model) const {
  const Graph& graph = simulation.graph;
  const NodeId middle = simulation.timeline.steps[static_cast<std::size_t>(step)].node;
  Cut cut{.loss = is_chunked(simulation, step), .saved = {}};
  std::set<BufferId> touched;
  std::set<ValueId> touched_values;
  const auto touch = [&](ValueId value) {
    touched.insert(simulation.lifetimes.buffer_of[value]);
    touched_values.insert(without_views(graph, value));
  };
  const Node& node = graph.nodes[middle];
  std::ranges::for_each(node.inputs, touch);
  // An output that may lie on an input counts with the input.
  const std::vector<NodeAlias> aliases = aliases_of(graph, node);
  for (const ValueId output : node.outputs) {
    if (std::ranges::find(aliases, output, &NodeAlias::output) == aliases.end()) touch(output);
  }
  for (const BufferId id : touched) {
    if (!id.valid() || simulation.lifetimes.buffers[id].persistent) continue;
    const Buffer& buffer = simulation.lifetimes.buffers[id];
    if (!is_accumulator(graph, buffer)) cut.touched += buffer.bytes.n;
    if (is_accumulator(graph, buffer) && accumulation_ == 1) cut.own += buffer.bytes.n;
  }
  if (!cut.loss) cut.own += simulation.lifetimes.scratch_bytes(step).n;

  const Around around(graph, middle);
  const PerNode<int> unit_of = units_of_nodes(graph, model.units);
  std::map<ValueId, bool> saved;  // true if a block reads it
  for (const NodeId id : graph.section_order(Section::micro)) {
    if (!graph.nodes[id].backward || around.later[id] == 0) continue;
    for (const ValueId input : graph.nodes[id].inputs) {
      const ValueId value = without_views(graph, input);
      const NodeId producer = graph.values[value].producer;
      const bool forward = producer.valid() && !graph.nodes[producer].backward && before_loss[producer] != 0;
      if (!forward || graph.values[value].version_of.valid() || touched_values.contains(value)) continue;
      saved[value] |= unit_of[id] >= 0 && unit_of[id] < model.blocks;
    }
  }
  // Values of one node count together. If blocks read some of them, only these count.
  std::map<NodeId, Saved> made;
  for (const auto& [value, by_block] : saved) {
    const NodeId producer = graph.values[value].producer;
    const double seconds = graph.nodes[producer].op->replayable ? model.kernels.of(graph, producer, 1).add.seconds : kNever;
    Saved& all = made.try_emplace(producer, Saved{0, 0, seconds, by_block}).first->second;
    if (by_block && !all.by_block) all = {0, 0, seconds, true};
    if (by_block != all.by_block) continue;
    all.bytes += aligned_bytes(graph.values[value]).n;
    all.padding += padding_of(graph.values[value]);
  }
  for (const auto& [producer, all] : made) cut.saved.push_back(all);
  std::ranges::stable_sort(cut.saved, {}, [](const Saved& each) { return each.seconds / static_cast<double>(each.bytes); });
  return cut;
}

// The losses of a group run one after the other, while all saved values of its micro-batches are still needed. After them a group
// goes block by block. The first round of a window has no sums yet.
TimeCuts::Moments TimeCuts::moments(const Cut& cut, std::int64_t group) const {
  const std::int64_t each = cut.loss ? 1 : group;
  return {(accumulation_ / group - 1) * each, each, cut.loss ? group : 1};
}

double TimeCuts::all_again(const Cut& cut, const Moments& moments, double bytes) const {
  const auto once = [&](double left) {
    double seconds = 0;
    for (const Saved& saved : cut.saved) {
      if (left <= 0) break;
      const auto own = static_cast<double>(saved.bytes), all = own * static_cast<double>(saved.by_block ? moments.copies : 1);
      seconds += std::min(left, all) / own * saved.seconds;
      left -= all;
    }
    return left > 0 ? kNever : seconds;
  };
  if (moments.with_sums == 0) return static_cast<double>(moments.without_sums) * once(bytes);
  return static_cast<double>(moments.with_sums) * once(bytes) +
         static_cast<double>(moments.without_sums) * once(bytes - static_cast<double>(sums_));
}

// Bytes that may leave memory within a time. Persistent values pass a link once each way for any number of micro-batches, frozen
// ones once inwards: they go first. Saved values pass it at each moment. Bytes past a tier's room pass the next link, too.
struct TimeCuts::Links {
  struct Way {
    const Link *in, *out;
    double before;  // bytes on nearer tiers

    // The most bytes that come in within `seconds` if all but `frozen` of them go out again, and the inverse.
    double most_within(double seconds, double frozen) const {
      return std::min(in->alone() * seconds, out->alone() * seconds + frozen);
    }
    double seconds_for(double inward, double frozen) const {
      return std::max(inward / in->alone(), std::max(0.0, inward - frozen) / out->alone());
    }
  };
  std::vector<Way> links;
  double room = 0, persistent, frozen, moments;

  Links(const PlanRequest& request, const Machine& machine, std::int64_t movable, std::int64_t frozen, std::int64_t moments)
      : persistent(static_cast<double>(movable)), frozen(static_cast<double>(frozen)), moments(static_cast<double>(moments)) {
    if (request.optimizer_state == RestPolicy::memory) return;  // then all other values stay as well
    for (std::size_t i = 0; i < request.beyond.size(); ++i) {
      const auto *in = link_between(machine, i + 1, i), *out = link_between(machine, i, i + 1);
      if (in == nullptr || out == nullptr) break;
      links.push_back({in, out, room});
      room += static_cast<double>(request.beyond[i].n);
    }
  }

  // Bytes on other tiers at each moment: every round of a window runs the same instructions.
  double most_within(double seconds) const {
    if (links.empty()) return 0;
    const double passes = links.front().most_within(seconds, frozen), once = std::min(persistent + frozen, passes);
    double most = std::min(room, once + (passes - once) / moments);
    for (const Way& link : links) most = std::min(most, link.before + link.most_within(seconds, frozen));
    return most;
  }

  double seconds_for(double bytes) const {
    const double once = std::min(persistent + frozen, bytes);
    double seconds = links.empty() ? 0 : links.front().seconds_for(once + (bytes - once) * moments, frozen);
    for (const Way& link : links) seconds = std::max(seconds, link.seconds_for(bytes - link.before, frozen));
    return seconds;
  }

  // Seconds for bytes that come in and others that go out. Both directions overlap as long as that is faster.
  double both_ways(double in, double out) const {
    double seconds = 0;
    for (const Way& link : links) {
      const double inward = std::max(0.0, in - link.before), outward = std::max(0.0, out - link.before);
      const double both = std::min(inward / link.in->bytes_per_second, outward / link.out->bytes_per_second);
      const auto alone = [&](double beside) {
        return (inward - beside * link.in->bytes_per_second) / link.in->alone() +
               (outward - beside * link.out->bytes_per_second) / link.out->alone();
      };
      seconds = std::max(seconds, std::min(both + alone(both), alone(0)));
    }
    return seconds;
  }
};

double TimeCuts::waits_behind(const End& end, Bytes arena, const Links& links) {
  if (!end.apart) return 0;
  const auto beyond = [&](std::int64_t bytes) { return static_cast<double>(std::max<std::int64_t>(0, bytes - arena.n)); };
  return std::max(0.0, links.both_ways(beyond(end.read), beyond(end.written)) - end.kernels);
}

TimeBound TimeCuts::at(const Cut& cut, const Moments& moments, Bytes arena, double kernels, Bytes scratch,
                       const Links& links) const {
  const bool in_memory = links.links.empty();
  std::int64_t live = persistent_ + (moments.with_sums > 0 ? sums_ : 0) + cut.touched + (cut.loss ? scratch.n : 0);
  std::int64_t padding =
      padding_ + (moments.with_sums > 0 ? sums_padding_ : 0);  // it leaves memory with its values and passes no link
  for (const Saved& saved : cut.saved) {
    live += saved.bytes * (saved.by_block ? moments.copies : 1);
    padding += saved.padding * (saved.by_block ? moments.copies : 1);
  }
  // Not counted with another tier: accumulators may leave memory when written, and operands in ranges need less scratch.
  live += in_memory ? cut.own : -padding;
  const auto short_of = static_cast<double>(std::max<std::int64_t>(0, live - arena.n));
  const double waits = waits_behind(moments.with_sums > 0 ? rounds_ : one_round_, arena, links);
  const double least = kernels + waits;
  const auto again = [&](double seconds) { return all_again(cut, moments, short_of - links.most_within(seconds)); };
  constexpr int kDoublings = 60, kHalvings = 50;
  double low = least, high = least + again(least);
  for (int i = 0; i < kDoublings && high == kNever && !in_memory; ++i) {
    low *= 2;
    high = low + again(low);
  }
  if (high == kNever) return {.compute = kNever, .again = kNever};
  low = least;
  for (int i = 0; i < kHalvings && high > low; ++i) {
    const double middle = (low + high) / 2;
    (least + again(middle) <= middle ? high : low) = middle;
  }
  const double elsewhere = std::min(short_of, links.most_within(high));
  return {.compute = kernels + again(high), .again = again(high), .waits = waits, .transfers = links.seconds_for(elsewhere)};
}

TimeBound TimeCuts::within(Bytes arena, double kernels, Bytes loss_scratch, std::int64_t group, const PlanRequest& request,
                           const Machine& machine) const {
  if (cuts_.empty()) return {.compute = kernels};
  TimeBound most;
  for (const Cut& cut : cuts_) {
    const Moments each = moments(cut, group);
    const Links links(request, machine, movable_ + (each.with_sums > 0 ? sums_ : 0), frozen_, each.with_sums + each.without_sums);
    const TimeBound bound = at(cut, each, arena, kernels, loss_scratch, links);
    if (bound.seconds() > most.seconds()) most = bound;
  }
  return most;
}

}  // namespace plimsoll
