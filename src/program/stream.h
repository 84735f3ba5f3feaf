// Updates of state that rests on another tier, as instructions: pieces of the state come into slots of the pages, are updated and
// go back, so that one slot computes while others are on their way.
#pragma once

#include "program/program.h"

namespace plimsoll {

// The instructions of each of `updates`, which share their pages and run in this order; other instructions may run in between,
// and copies beside them. All slots fill before the first piece is updated; a slot takes its next piece, which may be another
// update's, once the piece before it is back, which is waited for one piece later. At the end nothing is on its way.
std::vector<std::vector<Instruction>> stream_updates(const Graph& graph, const PerValue<Operand>& operands, const Paging& paging,
                                                     const std::vector<NodeId>& updates);

}  // namespace plimsoll
