// Instructions for nodes on ranges of values of another tier. Ranges are fetched into slots of the node's pages, read, updated or
// summed there, and stored back if they changed: one slot is computed on while others are in transfer.
#pragma once

#include "program/program.h"

namespace plimsoll {

// Replicas of one node, which run in turn on each range; a range is fetched once for all of them. The instructions are complete
// except for their operands.
using StreamedNodes = std::vector<RunKernel>;

// The instructions of each of `nodes`, which share their pages and run in this order; other instructions and copies may run in
// between. All slots are filled before the first range is computed. A slot takes its next range, perhaps another node's, after
// its previous range is stored; the wait for that store comes one range later. No transfer remains at the end. Events are
// numbered from `first_event`.
//
// Ranges 0 to 5 in three slots, if all lanes are equally fast; range 3 takes the slot of range 0:
//   in       0  1  2  3  4  5
//   kernel      0  1  2  3  4  5
//   out            0  1  2  3  4  5
std::vector<std::vector<Instruction>> stream_nodes(const Graph& graph, const PerValue<Operand>& operands,
                                                   const Residency& residency, std::int64_t rounds,
                                                   const std::vector<StreamedNodes>& nodes, std::uint32_t first_event);

}  // namespace plimsoll
