#include "plan/step_roles.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"

namespace plimsoll {

namespace {

// Whether the step runs a node of that pass for the first time.
bool computes(const Simulation& simulation, int step, bool backward) {
  const Step& what = simulation.timeline.steps[static_cast<std::size_t>(step)];
  if (what.kind != Step::Kind::node || what.section != Section::micro) return false;
  const Node& node = simulation.graph.nodes[what.node];
  return node.backward == backward && !node.clone_of.valid() && node.op->transfer == Transfer::none;
}

}  // namespace

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

bool is_chunked(const Simulation& simulation, int step) {
  const Step& what = simulation.timeline.steps[static_cast<std::size_t>(step)];
  return what.kind == Step::Kind::node && simulation.graph.nodes[what.node].op->chunked;
}

std::vector<int> find_losses(const Simulation& simulation) {
  std::vector<int> losses;
  int last_forward = simulation.timeline.micro.begin;
  for (int step = simulation.timeline.micro.begin; step < simulation.timeline.micro.end; ++step) {
    if (is_chunked(simulation, step)) losses.push_back(step);
    if (computes(simulation, step, /*backward=*/false)) last_forward = step;
  }
  if (losses.empty()) losses.push_back(last_forward);
  return losses;
}

int block_that_saves(const Buffer& buffer, int loss, const std::vector<int>& block_of) {
  const bool kept = !buffer.persistent && buffer.value.valid() && lives(buffer, loss, Phase::steady) && buffer.begin < loss;
  return kept ? block_of[static_cast<std::size_t>(buffer.begin)] : kOutside;
}

namespace {

// By its line alone one cannot tell then for which block a step works.
bool share_a_line(const Graph& graph, const std::vector<GraphBlock>& blocks) {
  std::unordered_map<Symbol, std::size_t> block_of_line;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (const NodeId id : blocks[i].nodes) {
      if (block_of_line.emplace(graph.nodes[id].line, i).first->second != i) return true;
    }
  }
  return false;
}

}  // namespace

bool blocks_compose(const Simulation& simulation, const std::vector<GraphBlock>& blocks) {
  if (share_a_line(simulation.graph, blocks)) return false;
  const std::vector<int> losses = find_losses(simulation), block_of = block_of_steps(simulation, blocks);
  const auto first_of = [&](int step) {
    const NodeId node = simulation.timeline.steps[static_cast<std::size_t>(step)].node;
    const NodeId first = simulation.graph.nodes[node].replica_of;
    return first.valid() ? first : node;
  };
  const auto another = [&](int loss) { return first_of(loss) != first_of(losses.front()); };
  if (std::ranges::any_of(losses, another)) return false;
  std::vector<int> end(blocks.size(), losses.front());  // of each block's backward pass
  for (int step = simulation.timeline.micro.begin; step < simulation.timeline.micro.end; ++step) {
    const int block = block_of[static_cast<std::size_t>(step)];
    if (block == kOutside) continue;
    if (step > losses.front() && computes(simulation, step, /*backward=*/false)) return false;
    if (step < losses.back() && computes(simulation, step, /*backward=*/true)) return false;
    end[static_cast<std::size_t>(block)] = std::max(end[static_cast<std::size_t>(block)], step + 1);
  }
  return std::ranges::all_of(simulation.lifetimes.buffers, [&](const Buffer& buffer) {
    const int block = block_that_saves(buffer, losses.front(), block_of);
    return block == kOutside || buffer.end <= end[static_cast<std::size_t>(block)];
  });
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
