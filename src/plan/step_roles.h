// What the steps of a simulated micro-step are for: which block they work for, which are the loss, and what they cost by
// themselves.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/blocks.h"
#include "plan/simulation.h"

namespace plimsoll {

inline constexpr int kOutside = -1;

// The block that each step of a micro-step works for, forward, backward or recomputing; kOutside for the rest. Steps of the
// update that run within it, and transfers, belong to the block whose pass they follow.
std::vector<int> block_of_steps(const Simulation& simulation, const std::vector<GraphBlock>& blocks);

bool is_loss(const Simulation& simulation, int step);
// Of each micro-batch that goes with the others; an internal error where there is none.
std::vector<int> find_losses(const Simulation& simulation);

// Bytes live at a step of a micro-step, less the scratch of its kernel and of those that stream with it.
std::int64_t live_without_scratch(const Simulation& simulation, const LiveProfile& steady, int step);
std::int64_t peak_of_other_phases(const Simulation& simulation);

// Of the kernel of a step; 0 for what is no clone.
double clone_seconds(const Simulation& simulation, int step);

}  // namespace plimsoll
