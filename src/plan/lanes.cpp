#include "plan/lanes.h"

#include <algorithm>
#include <cmath>

#include "base/ceil_div.h"
#include "plan/simulation.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kElement = sizeof(float);

double seconds_at(double bytes_per_second, const Link& link, Bytes bytes, Bytes page) {
  const auto pieces = static_cast<double>(ceil_div(bytes.n, page.n));
  return pieces * link.latency_seconds + static_cast<double>(bytes.n) / bytes_per_second;
}
double seconds_on(const Link& link, Bytes bytes, Bytes page) { return seconds_at(link.bytes_per_second, link, bytes, page); }

}  // namespace

LaneModel::LaneModel(const Simulation& simulation, const Paging& paging, const Machine& machine)
    : simulation_(simulation),
      paging_(paging),
      in_(paging.active() ? link_between(machine, 1, 0) : nullptr),
      out_(paging.active() ? link_between(machine, 0, 1) : nullptr) {
  if (in_ == nullptr || out_ == nullptr) in_ = out_ = nullptr;
  if (in_ != nullptr) page_ = Bytes{page_elements(simulation.graph, paging) * kElement};
}

double LaneModel::kernel_seconds(int step) const {
  return simulation_.kernels[static_cast<std::size_t>(step)].of(simulation_.timeline.rounds == 1).seconds;
}

// Each way is a lane of its own, and a slot is refilled while the next pieces are worked on.
LaneEvent LaneModel::streamed(const Node& node, double seconds) const {
  const std::vector<StreamedInput> inputs = streamed_inputs(simulation_.graph, node);
  const int passes = ranges_of(simulation_.graph, node).passes;
  const Bytes range{range_elements(simulation_.graph, node, page_.n / kElement) * kElement};
  double lane_in = 0, lane_out = 0, first = 0;
  std::int64_t pieces = 0;
  for (const StreamedInput& streamed : inputs) {
    const Bytes bytes = simulation_.graph.values[node.inputs[streamed.input]].bytes();
    const bool comes = simulation_.timeline.rounds > 1 || !streamed.begins;
    if (comes) lane_in += (streamed.changes ? 1 : passes) * seconds_on(*in_, bytes, page_);
    if (streamed.changes) lane_out += seconds_on(*out_, bytes, page_);
    if (comes && (!streamed.changes || passes == 1)) first += seconds_on(*in_, range, page_);
    pieces += ceil_div(bytes.n, page_.n);
  }
  const bool apart = node.section != Section::update, beside = in_->beside_compute && out_->beside_compute;
  // As long as both lanes are busy, each has its rate of then; the rest has the link for itself.
  const Link& longer = lane_in > lane_out ? *in_ : *out_;
  const double rest = std::abs(lane_in - lane_out) * longer.bytes_per_second / longer.alone();
  const double together = std::min(lane_in, lane_out) + rest;
  const double slots = static_cast<double>(paging_.slots) * static_cast<double>(inputs.size());
  return {.kind = LaneEvent::Kind::streamed,
          .kernels = seconds,
          .transfer = beside ? together : lane_in + lane_out,
          .in = lane_in,
          .out = lane_out,
          .ahead = beside && !apart ? std::min(1.0, slots / static_cast<double>(pieces)) : 0,
          .fill = apart ? first : static_cast<double>(simulation_.graph.values[node.pages].bytes().n) / in_->bytes_per_second,
          .apart = apart};
}

LaneEvents LaneModel::transfer(const Node& node) const {
  if (simulation_.timeline.rounds == 1 && brings_what_is_written(simulation_.graph, node)) return {};
  const Transfer what = node.op->transfer;
  const bool out = what == Transfer::store || what == Transfer::stored;
  if (what == Transfer::fetched || what == Transfer::stored) return {{.kind = LaneEvent::Kind::wait, .outward = out}};
  const Link& link = out ? *out_ : *in_;
  const Bytes bytes = simulation_.graph.values[node.outputs[0]].bytes();
  return {{.kind = LaneEvent::Kind::start,
           .outward = out,
           .transfer = seconds_on(link, bytes, page_),
           .alone = seconds_at(link.alone(), link, bytes, page_)}};
}

// What streams together moves once, when the first of its steps comes.
LaneEvents LaneModel::stream(int step) const {
  const StepRange together = streams_with(simulation_.graph, simulation_.timeline, step);
  if (step != together.begin) return {};
  double seconds = 0;
  for (int each = together.begin; each < together.end; ++each) seconds += kernel_seconds(each);
  return {streamed(simulation_.graph.nodes[simulation_.timeline.steps[static_cast<std::size_t>(step)].node], seconds)};
}

LaneEvents LaneModel::events_of(int step) const {
  const Step& what = simulation_.timeline.steps[static_cast<std::size_t>(step)];
  const double seconds = kernel_seconds(step);
  if (what.kind == Step::Kind::node && in_ != nullptr) {
    const Node& node = simulation_.graph.nodes[what.node];
    if (node.op->transfer != Transfer::none) return transfer(node);
    if (!streamed_inputs(simulation_.graph, node).empty()) return stream(step);
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
  double& free = free_[event.outward ? 1 : 0];
  std::deque<double>& done = done_[event.outward ? 1 : 0];
  busy_.kernels += event.kernels;
  busy_.in += event.in;
  busy_.out += event.out;
  switch (event.kind) {
    case LaneEvent::Kind::kernels: now_ += event.kernels; break;
    case LaneEvent::Kind::start: {
      const double begin = std::max(free, now_), seconds = free_[event.outward ? 0 : 1] > begin ? event.transfer : event.alone;
      free = begin + seconds;
      done.push_back(free);
      (event.outward ? busy_.out : busy_.in) += seconds;
      break;
    }
    case LaneEvent::Kind::wait:
      if (done.empty()) break;
      pause(done.front());
      done.pop_front();
      break;
    case LaneEvent::Kind::streamed: {
      const double busy = std::max(free_[0], free_[1]), idle = now_ - std::max(last_streamed_, std::min(busy, now_));
      const double hidden = streams_ ? std::min(idle, event.ahead * event.transfer) : 0, backlog = std::max(0.0, busy - now_);
      const double longer = std::max(0.0, backlog + event.transfer - event.kernels - hidden);
      pause(now_ + longer + (streams_ && !event.apart ? 0 : event.fill));
      now_ += event.kernels;
      free_[0] = free_[1] = now_;
      if (event.apart) break;
      last_streamed_ = now_;
      streams_ = true;
      break;
    }
  }
}

void LaneClock::run(const LaneEvents& events) {
  for (const LaneEvent& event : events) run(event);
}

}  // namespace plimsoll
