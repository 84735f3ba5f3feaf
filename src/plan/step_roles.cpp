#include "plan/step_roles.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"

namespace plimsoll {

std::vector<int> block_of_steps(const Simulation& simulation, const std::vector<GraphBlock>& blocks) {
  const std::unordered_map<Symbol, int> block_of_line = blocks_of_lines(simulation.graph, blocks);
  std::vector<int> result;
  for (std::size_t i = 0; i < simulation.timeline.steps.size(); ++i) {
    const Step& step = simulation.timeline.steps[i];
    int block = kOutside;
    const bool follows = step.section == Section::update ||
                         (step.kind == Step::Kind::node && simulation.graph.nodes[step.node].op->transfer != Transfer::none);
    if (follows && simulation.timeline.micro.contains(static_cast<int>(i))) {
      block = result.back();
    } else if (step.kind == Step::Kind::node && step.section == Section::micro) {
      const auto found = block_of_line.find(simulation.graph.nodes[step.node].line);
      if (found != block_of_line.end()) block = found->second;
    }
    result.push_back(block);
  }
  return result;
}

bool is_loss(const Simulation& simulation, int step) {
  const Step& what = simulation.timeline.steps[static_cast<std::size_t>(step)];
  return what.kind == Step::Kind::node && simulation.graph.nodes[what.node].op->chunked;
}

std::vector<int> find_losses(const Simulation& simulation) {
  std::vector<int> losses;
  for (int step = simulation.timeline.micro.begin; step < simulation.timeline.micro.end; ++step) {
    if (is_loss(simulation, step)) losses.push_back(step);
  }
  ensure(!losses.empty(), "planner", "the training graph has no chunked loss");
  return losses;
}

std::int64_t live_without_scratch(const Simulation& simulation, const LiveProfile& steady, int step) {
  std::int64_t live = steady.bytes[static_cast<std::size_t>(step - simulation.timeline.micro.begin)].n;
  const StepRange together = streams_with(simulation.graph, simulation.timeline, step);
  for (int each = together.begin; each < together.end; ++each) {
    const BufferId scratch = simulation.lifetimes.scratch[static_cast<std::size_t>(each)];
    if (scratch.valid()) live -= simulation.lifetimes.buffers[scratch].bytes.n;
  }
  return live;
}

std::int64_t peak_of_other_phases(const Simulation& simulation) {
  std::int64_t peak = 0;
  for (const Phase phase : {Phase::load, Phase::evaluate, Phase::save, Phase::generate}) {
    peak = std::max(peak, live_profile(simulation.lifetimes, simulation.timeline, phase).peak.n);
  }
  return peak;
}

double clone_seconds(const Simulation& simulation, int step) {
  const Step& what = simulation.timeline.steps[static_cast<std::size_t>(step)];
  if (what.kind != Step::Kind::node || !simulation.graph.nodes[what.node].clone_of.valid()) return 0;
  return simulation.kernels[static_cast<std::size_t>(step)].add.seconds;
}

}  // namespace plimsoll
