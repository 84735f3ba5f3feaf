// Roles of the steps of a simulated micro-step: the losses, and their live bytes without scratch.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/simulation.h"

namespace plimsoll {

// True if the step runs a loss whose number of chunks the planner chooses.
bool is_chunked(const Simulation& simulation, int step);
// The turns of a micro-step from its forward to its backward pass, in order: the chunked losses, one of each per micro-batch of a
// group; without a chunked loss, the last forward node. Without a micro-step, none.
std::vector<int> find_losses(const Simulation& simulation);

// Bytes live at a step of a micro-step, less the scratch of its kernel and of those that stream with it.
std::int64_t live_without_scratch(const Simulation& simulation, const LiveProfile& steady, int step);
// Peak live bytes that no choice of a micro-step changes: of other phases and of the update.
std::int64_t peak_around(const Simulation& simulation, const LiveProfile& steady);

}  // namespace plimsoll
