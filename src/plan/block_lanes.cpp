#include "plan/block_lanes.h"

#include <algorithm>

#include "plan/simulation.h"
#include "plan/step_roles.h"

namespace plimsoll {

UniformLanes lanes_of(const Simulation& simulation, const std::vector<GraphBlock>& blocks, const PerValue<int>& block_of_value,
                      const Paging& paging, const Machine& machine) {
  const std::vector<int> block_of = block_of_steps(simulation, blocks);
  const std::vector<int> losses = find_losses(simulation);
  const int first_loss = losses.front(), last_loss = losses.back();
  const LaneModel model(simulation, paging, machine);
  const auto fetches_for = [&](int step) {
    const Step& what = simulation.timeline.steps[static_cast<std::size_t>(step)];
    if (what.kind != Step::Kind::node || simulation.graph.nodes[what.node].op->transfer != Transfer::fetch) return kOutside;
    return block_of_value[origin_of(simulation.graph, simulation.graph.nodes[what.node].inputs[0])];
  };
  UniformLanes lanes{std::vector<BlockLanes>(blocks.size()), {}};
  bool begun = false;
  auto backward_left = std::count_if(block_of.begin() + last_loss, block_of.begin() + simulation.timeline.micro.end,
                                     [](int block) { return block != kOutside; });
  for (int step = simulation.timeline.micro.begin; step < simulation.timeline.micro.end; ++step) {
    const int block = block_of[static_cast<std::size_t>(step)];
    if (block == kOutside) {
      OuterLanes& outer = lanes.outer;
      append(!begun ? outer.before : backward_left > 0 ? outer.between : outer.after, model.events_of(step));
      continue;
    }
    begun = true;
    if (step > last_loss) --backward_left;
    const bool forward = step < first_loss;
    BlockLanes& own = lanes.blocks[static_cast<std::size_t>(block)];
    std::vector<PassPart>& pass = forward ? own.forward : own.backward;
    const int other = fetches_for(step);
    if (other == kOutside || other == block) {
      append(pass.back().events, model.events_of(step));
      continue;
    }
    if (pass.size() < 2 || pass[pass.size() - 2].then_fetches != other || !pass.back().events.empty()) {
      pass.back().then_fetches = other;
      pass.emplace_back();
    }
    BlockLanes& fetched = lanes.blocks[static_cast<std::size_t>(other)];
    append(forward ? fetched.fetched_forward : fetched.fetched_backward, model.events_of(step));
  }
  return lanes;
}

double stall_of(const std::vector<const BlockLanes*>& blocks, const OuterLanes& outer, std::int64_t rounds) {
  const auto run_all = [&](LaneClock& clock) {
    const auto run = [&](const std::vector<PassPart>& pass, LaneEvents BlockLanes::*fetched) {
      for (const PassPart& part : pass) {
        clock.run(part.events);
        if (part.then_fetches != kOutside) clock.run(blocks[static_cast<std::size_t>(part.then_fetches)]->*fetched);
      }
    };
    clock.run(outer.before);
    for (const BlockLanes* block : blocks) run(block->forward, &BlockLanes::fetched_forward);
    clock.run(outer.between);
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) run((*block)->backward, &BlockLanes::fetched_backward);
    clock.run(outer.after);
  };
  return micro_lanes(rounds, run_all).stall;
}

}  // namespace plimsoll
