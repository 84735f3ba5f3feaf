// What the steps of a simulated micro-step are for: which are the loss, and what they take by themselves.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/simulation.h"

namespace plimsoll {

// Whether the step runs a loss whose number of chunks the planner chooses.
bool is_chunked(const Simulation& simulation, int step);
// Where a micro-step turns from its forward to its backward pass, in order: the chunked losses, each as often as micro-batches go
// together; without one, the last forward node.
std::vector<int> find_losses(const Simulation& simulation);

// Bytes live at a step of a micro-step, less the scratch of its kernel and of those that stream with it.
std::int64_t live_without_scratch(const Simulation& simulation, const LiveProfile& steady, int step);
// The most that is live where no choice of a micro-step changes anything: in other phases, and at the steps of the update.
std::int64_t peak_around(const Simulation& simulation, const LiveProfile& steady);

}  // namespace plimsoll
