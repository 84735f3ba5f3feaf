#include "plan/tiers/lanes.h"

#include <algorithm>
#include <cmath>

#include "base/ceil_div.h"
#include "plan/simulation.h"

namespace plimsoll {
namespace {

double pieces_of(Bytes bytes, Bytes page) { return static_cast<double>(ceil_div(bytes.n, page.n)); }
double seconds_on(const Link& link, Bytes bytes, Bytes page) {
  return pieces_of(bytes, page) * link.latency_seconds + static_cast<double>(bytes.n) / link.bytes_per_second;
}
double seconds_alone(const Link& link, Bytes bytes, Bytes page) {
  return pieces_of(bytes, page) * link.alone_latency() + static_cast<double>(bytes.n) / link.alone();
}
double lost_to(const Link& link, Bytes bytes, Bytes page) {
  return pieces_of(bytes, page) * link.kernel_seconds_per_piece + static_cast<double>(bytes.n) * link.kernel_seconds_per_byte;
}
double tail_of(const Link& link, Bytes bytes, Bytes page) {
  return link.tail_seconds + static_cast<double>(std::min(bytes, page).n) * link.tail_seconds_per_byte;
}

}  // namespace

LaneModel::LaneModel(const Simulation& simulation, const Residency& residency, const Machine& machine)
    : simulation_(simulation), residency_(residency) {
  if (!residency.active()) return;
  ways_ = find_ways(machine);
  if (!ways_.links.empty()) page_ = page_elements(simulation.graph, residency);
}

double LaneModel::kernel_seconds(int step) const {
  return simulation_.kernels[static_cast<std::size_t>(step)].of(simulation_.timeline.rounds == 1).seconds;
}

// Each direction is a lane of its own. A slot is refilled while the next pieces are used.
LaneEvent LaneModel::streamed(const Node& node, const std::vector<StreamedInput>& inputs, double seconds,
                              bool first_round) const {
  const int passes = ranges_of(simulation_.graph, node).passes;
  const std::int64_t range = range_elements(simulation_.graph, node, page_);
  const bool apart = !streams_as_one(simulation_.graph, node.section);
  LaneEvent event{.kind = LaneEvent::Kind::streamed, .kernels = seconds, .apart = apart};
  std::int64_t pieces = 0;
  bool beside = true;
  for (std::size_t i = 0; i < ways_.links.size(); ++i) {
    const Link &way_in = *ways_.links[i].in, &way_out = *ways_.links[i].out;
    double first = 0, room = 0, in_alone = 0, out_alone = 0;
    pieces = 0;
    for (const StreamedInput& streamed : inputs) {
      const Value& value = simulation_.graph.values[node.inputs[streamed.input]];
      const Bytes page = page_bytes(page_, value.type.dtype), first_range{range * size_of(value.type.dtype)};
      pieces += ceil_div(value.type.shape.elements(), page_);
      if (!ways_.passes(value.tier, i)) continue;
      const bool comes = !first_round || !streamed.begins;
      const int times = comes ? (streamed.changes ? 1 : passes) : 0;
      event.in[i] += times * seconds_on(way_in, value.bytes(), page);
      in_alone += times * seconds_alone(way_in, value.bytes(), page);
      event.lost += times * lost_to(way_in, value.bytes(), page);
      if (streamed.changes) event.out[i] += seconds_on(way_out, value.bytes(), page);
      if (streamed.changes) out_alone += seconds_alone(way_out, value.bytes(), page);
      if (streamed.changes) event.lost += lost_to(way_out, value.bytes(), page);
      if (comes && (!streamed.changes || passes == 1)) {
        first += seconds_on(way_in, first_range, page) + tail_of(way_in, first_range, page);
      }
      room += 1;
    }
    if (room == 0) continue;
    const bool both = way_in.beside_compute && way_out.beside_compute;
    // While both lanes are busy each has its shared rate; the rest of the longer one has the link alone.
    const bool inward = event.in[i] > event.out[i];
    const double longer = inward ? event.in[i] : event.out[i], by_itself = inward ? in_alone : out_alone;
    const double rest = longer > 0 ? std::abs(event.in[i] - event.out[i]) * by_itself / longer : 0;
    event.transfer[i] = both ? std::min(event.in[i], event.out[i]) + rest : event.in[i] + event.out[i];
    const double share = room / static_cast<double>(inputs.size());
    const double pages = share * static_cast<double>(simulation_.graph.values[node.pages].bytes().n) / way_in.bytes_per_second;
    event.fill = std::max(event.fill, apart ? first : pages);
    beside = beside && both;
  }
  const double slots = static_cast<double>(residency_.pages.slots) * static_cast<double>(inputs.size());
  if (beside && !apart) event.ahead = std::min(1.0, slots / static_cast<double>(pieces));
  return event;
}

LaneEvents LaneModel::transfer(const Node& node) const {
  const bool later = brings_what_is_written(simulation_.graph, node);
  const LaneEvent::When when = later ? LaneEvent::When::later : LaneEvent::When::always;
  const Transfer what = node.op->transfer;
  const bool out = what == Transfer::store || what == Transfer::stored;
  const ValueId rests = origin_of(simulation_.graph, node.outputs[0]);
  if (what == Transfer::fetched || what == Transfer::stored)
    return {{.kind = LaneEvent::Kind::wait, .when = when, .outward = out, .home = rests}};
  LaneEvent event{.kind = LaneEvent::Kind::start, .when = when, .outward = out, .home = rests};
  const Value& home = simulation_.graph.values[rests];
  const Bytes page = page_bytes(page_, home.type.dtype);
  for (const std::size_t i : ways_.to(home.tier)) {
    const Link& link = out ? *ways_.links[i].out : *ways_.links[i].in;
    event.transfer[i] = seconds_on(link, home.bytes(), page);
    event.alone[i] = seconds_alone(link, home.bytes(), page);
    event.tail += tail_of(link, home.bytes(), page);
    event.lost += lost_to(link, home.bytes(), page);
  }
  return {event};
}

// Values that stream together move once, at the first of their steps.
LaneEvents LaneModel::stream(int step, const std::vector<StreamedInput>& inputs) const {
  const StepRange together = streams_with(simulation_.graph, simulation_.timeline, step);
  if (step != together.begin) return {};
  double seconds = 0;
  for (int each = together.begin; each < together.end; ++each) seconds += kernel_seconds(each);
  const Node& node = simulation_.graph.nodes[simulation_.timeline.steps[static_cast<std::size_t>(step)].node];
  LaneEvent first = streamed(node, inputs, seconds, true);
  if (std::none_of(inputs.begin(), inputs.end(), [](const StreamedInput& input) { return input.begins; })) return {first};
  LaneEvent later = streamed(node, inputs, seconds, false);
  first.when = LaneEvent::When::first;
  later.when = LaneEvent::When::later;
  return {first, later};
}

LaneEvents LaneModel::events_of(int step) const {
  const Step& what = simulation_.timeline.steps[static_cast<std::size_t>(step)];
  const double seconds = kernel_seconds(step);
  if (what.kind == Step::Kind::node && !ways_.links.empty()) {
    const Node& node = simulation_.graph.nodes[what.node];
    if (node.op->transfer != Transfer::none) return transfer(node);
    const std::vector<StreamedInput> inputs = streamed_inputs(simulation_.graph, node);
    if (!inputs.empty()) return stream(step, inputs);
  }
  if (seconds == 0) return {};
  return {{.kind = LaneEvent::Kind::kernels, .kernels = seconds}};
}

void append(LaneEvents& events, const LaneEvents& more) {
  const auto runs = [](const LaneEvent& event) { return event.kind == LaneEvent::Kind::kernels; };
  for (const LaneEvent& event : more) {
    if (!events.empty() && runs(events.back()) && runs(event)) {
      events.back().kernels += event.kernels;
    } else {
      events.push_back(event);
    }
  }
}

void LaneClock::pause(double until) {
  if (until <= now_) return;
  stall_ += until - now_;
  now_ = until;
}

void LaneClock::run(const LaneEvent& event) {
  if (event.when == skipped_) return;
  if (event.kind == LaneEvent::Kind::kernels) return run_kernels(event.kernels);
  busy_.kernels += event.kernels;
  switch (event.kind) {
    case LaneEvent::Kind::kernels: break;
    case LaneEvent::Kind::start:
      underway_[event.outward ? 1 : 0].push_back({event.home, start(event)});
      pause(now_ + event.lost);
      break;
    case LaneEvent::Kind::wait: wait(event); break;
    case LaneEvent::Kind::streamed: stream(event); break;
  }
}

// Returns the time at which the transfer has passed every link on its way.
double LaneClock::start(const LaneEvent& event) {
  const std::size_t way = event.outward ? 1 : 0;
  double end = now_;
  for (std::size_t i = 0; i < event.transfer.size(); ++i) {
    if (event.transfer[i] == 0) continue;
    const double begin = std::max(free_[i][way], now_);
    const double seconds = free_[i][1 - way] > begin ? event.transfer[i] : event.alone[i];
    free_[i][way] = begin + seconds;
    end = std::max(end, free_[i][way]);
    (event.outward ? busy_.out : busy_.in)[i] += seconds;
  }
  return end + event.tail;
}

// Early transfers may be needed late, so the one to wait for may not be the oldest on its lane.
void LaneClock::wait(const LaneEvent& event) {
  std::vector<Underway>& underway = underway_[event.outward ? 1 : 0];
  const auto found =
      std::find_if(underway.begin(), underway.end(), [&](const Underway& each) { return each.home == event.home; });
  if (found == underway.end()) return;
  pause(found->end);
  underway.erase(found);
}

void LaneClock::stream(const LaneEvent& event) {
  double longer = 0;
  for (std::size_t i = 0; i < event.transfer.size(); ++i) {
    busy_.in[i] += event.in[i];
    busy_.out[i] += event.out[i];
    if (event.transfer[i] == 0) continue;
    const double busy = std::max(free_[i][0], free_[i][1]), idle = now_ - std::max(last_streamed_, std::min(busy, now_));
    const double hidden = streams_ ? std::min(idle, event.ahead * event.transfer[i]) : 0;
    const double backlog = std::max(0.0, busy - now_);
    longer = std::max(longer, backlog + event.transfer[i] - event.kernels - event.lost - hidden);
  }
  pause(now_ + event.lost + longer + (streams_ && !event.apart ? 0 : event.fill));
  now_ += event.kernels;
  for (std::size_t i = 0; i < event.transfer.size(); ++i) {
    if (event.transfer[i] > 0) free_[i] = {now_, now_};
  }
  if (event.apart) return;
  last_streamed_ = now_;
  streams_ = true;
}

void LaneClock::run(const LaneEvents& events) {
  for (const LaneEvent& event : events) run(event);
}

MicroLanes micro_lanes(std::int64_t rounds, const LaneClock& first, const LaneClock& later) {
  MicroLanes lanes{first.stall(), first.busy()};
  const auto mean = [&](double& of_first, double of_later) {
    of_first = (of_first + static_cast<double>(rounds - 1) * of_later) / static_cast<double>(rounds);
  };
  mean(lanes.stall, later.stall());
  mean(lanes.busy.kernels, later.busy().kernels);
  for (std::size_t i = 0; i < std::max(lanes.busy.in.size(), later.busy().in.size()); ++i) {
    mean(lanes.busy.in[i], later.busy().in[i]);
    mean(lanes.busy.out[i], later.busy().out[i]);
  }
  return lanes;
}

MicroLanes micro_lanes(std::int64_t rounds, const LaneEvents& events) {
  LaneClock first, later(/*first=*/false);
  first.run(events);
  if (rounds > 1) later.run(events);
  return micro_lanes(rounds, first, later);
}

}  // namespace plimsoll
