// Instructions of exchanges between ranks (graph/exchange.h): messages straight from and into the values, or through the
// scratch of the node where numbers are added.
#pragma once

#include <vector>

#include "program/program.h"

namespace plimsoll {

// `whole`: the instruction of the node with all of its operands. No message is under way at the end.
void append_exchange(const Graph& graph, const RunKernel& whole, std::vector<Instruction>& to);

}  // namespace plimsoll
