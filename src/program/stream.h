// Nodes that work on ranges of what rests on another tier, as instructions: ranges of it come into slots of the node's pages, are
// read, updated or summed there and go back if they changed, so that one slot computes while others are on their way.
#pragma once

#include "program/program.h"

namespace plimsoll {

// Nodes that take turns on each range, which comes once for all of them: replicas of one node. Of each all is given but the
// operands.
using StreamedNodes = std::vector<RunKernel>;

// The instructions of each of `nodes`, which share their pages and run in this order; other instructions may run in between,
// and copies beside them. All slots fill before the first range is worked on; a slot takes its next range, which may be another
// node's, once the range before it is back, which is waited for one range later. At the end nothing is on its way.
// Events are numbered from `first_event`.
std::vector<std::vector<Instruction>> stream_nodes(const Graph& graph, const PerValue<Operand>& operands,
                                                   const Residency& residency, std::int64_t rounds,
                                                   const std::vector<StreamedNodes>& nodes, std::uint32_t first_event);

}  // namespace plimsoll
