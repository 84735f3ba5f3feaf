// Roles of the steps of a simulated micro-step: the losses, and their live bytes without scratch.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/simulation.h"

namespace plimsoll {

// True if the step runs a loss whose number of chunks the planner chooses.
bool is_chunked(const Simulation& simulation, int step);
// The steps at which a micro-step turns from its forward to its backward pass, in order: the chunked losses, each once per
// micro-batch of a group. Without a chunked loss: the last forward node. Without a micro-step: none.
std::vector<int> find_losses(const Simulation& simulation);

// Live bytes at a step of a micro-step, without the scratch of its kernel and of the kernels that stream with it.
std::int64_t live_without_scratch(const Simulation& simulation, const LiveProfile& steady, int step);
// Peak live bytes of the update and of the other phases, which no choice for the micro-step changes.
std::int64_t peak_around(const Simulation& simulation, const LiveProfile& steady);

}  // namespace plimsoll
