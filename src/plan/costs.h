// Seconds of a simulated update: of its kernels, and of the lanes of its transfers. Without training: of one run of each
// forward pass.
#pragma once

#include "plan/machine.h"
#include "plan/residency.h"
#include "plan/simulation.h"
#include "plan/tiers/lanes.h"

namespace plimsoll {

struct Costs {
  double micro = 0, update = 0;  // seconds of kernels in one micro-step, and outside of it
  double micro_exchanges = 0;    // seconds of exchanges with other ranks in one micro-step
  // Seconds in which kernels wait for transfers, and in which each lane is busy; micro-steps: the average over a window.
  double micro_stall = 0, update_stall = 0;
  LaneSeconds micro_lanes, update_lanes;
  int measured = 0, recorded = 0, bound = 0;  // numbers of kernels by the source of their seconds
};
// Seconds of one run of a forward pass, with the transfers for which its kernels wait.
double seconds_of(const Simulation& simulation, const Residency& residency, const Machine& machine, StepRange steps);
Costs costs_of(const Simulation& simulation, const Residency& residency, const Machine& machine);

}  // namespace plimsoll
