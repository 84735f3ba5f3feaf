#include "plan/costs.h"

#include "plan/tiers/rank_link.h"

namespace plimsoll {

double seconds_of(const Simulation& simulation, const Residency& residency, const Machine& machine, StepRange steps) {
  const LaneModel model(simulation, residency, machine);
  LaneClock clock;
  for (int step = steps.begin; step < steps.end; ++step) clock.run(model.events_of(step));
  return clock.busy().kernels + clock.stall();
}

Costs costs_of(const Simulation& simulation, const Residency& residency, const Machine& machine) {
  Costs costs;
  const bool always_first = simulation.timeline.rounds == 1;
  const LaneModel model(simulation, residency, machine);
  LaneEvents micro;
  LaneClock update;
  double update_exchanges = 0;
  for (std::size_t i = 0; i < simulation.kernels.size(); ++i) {
    const int step = static_cast<int>(i);
    const bool in_micro = simulation.timeline.micro.contains(step);
    if (simulation.timeline.trains() && !in_micro && !simulation.timeline.update.contains(step)) continue;
    const KernelChoice& kernel = simulation.kernels[i].of(always_first);
    (in_micro ? costs.micro : costs.update) += kernel.seconds;
    if (in_micro) {
      append(micro, model.events_of(step));
    } else {
      update.run(model.events_of(step));
    }
    const Step& what = simulation.timeline.steps[i];
    if (what.kind == Step::Kind::node) {
      (in_micro ? costs.micro_exchanges : update_exchanges) +=
          exchange_seconds(simulation.graph, simulation.graph.nodes[what.node], machine.rank_link);
    }
    if (what.kind != Step::Kind::node || simulation.graph.nodes[what.node].op->transfer != Transfer::none) continue;
    ++(kernel.source == CostSource::measured   ? costs.measured
       : kernel.source == CostSource::recorded ? costs.recorded
                                               : costs.bound);
  }
  const MicroLanes lanes = micro_lanes(simulation.timeline.rounds, micro);
  costs.micro_stall = lanes.stall + costs.micro_exchanges;
  costs.update_stall = update.stall() + update_exchanges;
  costs.micro_lanes = lanes.busy;
  costs.update_lanes = update.busy();
  return costs;
}

}  // namespace plimsoll
