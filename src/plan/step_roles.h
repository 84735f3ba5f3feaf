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

// Whether the step runs a loss whose number of chunks the planner chooses.
bool is_chunked(const Simulation& simulation, int step);
// Where a micro-step turns from its forward to its backward pass, in order: the chunked losses, each as often as micro-batches go
// together; without one, the last forward node.
std::vector<int> find_losses(const Simulation& simulation);

// The block whose forward pass makes what is in the buffer, where that is still there at the loss; else kOutside.
int block_that_saves(const Buffer& buffer, int loss, const std::vector<int>& block_of);

// Whether the live bytes of a mixture of what blocks do follow from what each does by itself: there is one loss, no block
// computes on both sides of it, what a block makes in its forward pass is gone after its backward pass, and no line of the model
// is in two blocks.
bool blocks_compose(const Simulation& simulation, const std::vector<GraphBlock>& blocks);

// Bytes live at a step of a micro-step, less the scratch of its kernel and of those that stream with it.
std::int64_t live_without_scratch(const Simulation& simulation, const LiveProfile& steady, int step);
std::int64_t peak_of_other_phases(const Simulation& simulation);

// Of the kernel of a step; 0 for what is no clone.
double clone_seconds(const Simulation& simulation, int step);

}  // namespace plimsoll
