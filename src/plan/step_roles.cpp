#include "plan/step_roles.h"

#include <algorithm>

namespace plimsoll {

namespace {

// True if the step is the first run of a forward node.
bool runs_forward(const Simulation& simulation, int step) {
  const Step& what = simulation.timeline.steps[static_cast<std::size_t>(step)];
  if (what.kind != Step::Kind::node || what.section != Section::micro) return false;
  const Node& node = simulation.graph.nodes[what.node];
  return !node.backward && !node.clone_of.valid() && node.op->transfer == Transfer::none;
}

}  // namespace

bool is_chunked(const Simulation& simulation, int step) {
  const Step& what = simulation.timeline.steps[static_cast<std::size_t>(step)];
  return what.kind == Step::Kind::node && simulation.graph.nodes[what.node].op->chunked;
}

std::vector<int> find_losses(const Simulation& simulation) {
  std::vector<int> losses;
  int last_forward = simulation.timeline.micro.begin;
  for (int step = simulation.timeline.micro.begin; step < simulation.timeline.micro.end; ++step) {
    if (is_chunked(simulation, step)) losses.push_back(step);
    if (runs_forward(simulation, step)) last_forward = step;
  }
  if (losses.empty() && simulation.timeline.trains()) losses.push_back(last_forward);
  return losses;
}

std::int64_t live_without_scratch(const Simulation& simulation, const LiveProfile& steady, int step) {
  std::int64_t live = steady.bytes[static_cast<std::size_t>(step - simulation.timeline.micro.begin)].n;
  const StepRange together = streams_with(simulation.graph, simulation.timeline, step);
  for (int each = together.begin; each < together.end; ++each) live -= simulation.lifetimes.scratch_bytes(each).n;
  return live;
}

std::int64_t peak_around(const Simulation& simulation, const LiveProfile& steady) {
  std::int64_t peak = 0;
  for (const Phase phase : simulation.timeline.phases()) {
    if (phase == Phase::first || phase == Phase::steady) continue;
    peak = std::max(peak, live_profile(simulation.lifetimes, simulation.timeline, phase).peak.n);
  }
  const Timeline& timeline = simulation.timeline;
  for (int step = timeline.update.begin; step < timeline.update.end; ++step)
    peak = std::max(peak, steady.bytes[static_cast<std::size_t>(step - timeline.micro.begin)].n);
  return peak;
}

}  // namespace plimsoll
