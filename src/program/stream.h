// What the update reads of values that rest on another tier, as instructions: pieces of them come into slots of the pages, are
// updated or summed there and go back if they changed, so that one slot computes while others are on their way.
#pragma once

#include "program/program.h"

namespace plimsoll {

// The instructions of each of `nodes`, which share their pages and run in this order; other instructions may run in between,
// and copies beside them. All slots fill before the first piece is worked on; a slot takes its next piece, which may be another
// node's, once the piece before it is back, which is waited for one piece later. At the end nothing is on its way.
// Of `nodes` only the ids and scratch are read. Events are numbered from 0.
std::vector<std::vector<Instruction>> stream_nodes(const Graph& graph, const PerValue<Operand>& operands, const Paging& paging,
                                                   const std::vector<RunKernel>& nodes);

}  // namespace plimsoll
