// What each block does on the lanes of a micro-step, told apart in simulations in which all blocks do the same, so that the waits
// of any mixture of them are known without a simulation of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "plan/blocks.h"
#include "plan/lanes.h"
#include "plan/step_roles.h"

namespace plimsoll {

// While a block computes, what another one will read is fetched, in the order in which that one's option reads it.
struct PassPart {
  LaneEvents events;
  int then_fetches = kOutside;  // for this block
};

struct BlockLanes {
  std::vector<PassPart> forward = std::vector<PassPart>(1), backward = std::vector<PassPart>(1);
  LaneEvents fetched_forward, fetched_backward;  // for this block, while another one computes
};

// What no block does, around the passes through them.
struct OuterLanes {
  LaneEvents before, between, after;
};

struct UniformLanes {
  std::vector<BlockLanes> blocks;
  OuterLanes outer;
};

// `block_of_value`: of values of the graph before any choice (blocks_of_values).
UniformLanes lanes_of(const Simulation& simulation, const std::vector<GraphBlock>& blocks, const PerValue<int>& block_of_value,
                      const Paging& paging, const Machine& machine);

// Seconds of a micro-step in which kernels wait, on average over the rounds of a window. The chunks of the loss make a difference
// of their own only: nothing of a block is on its way beside it.
double stall_of(const std::vector<const BlockLanes*>& blocks, const OuterLanes& outer, std::int64_t rounds);

}  // namespace plimsoll
