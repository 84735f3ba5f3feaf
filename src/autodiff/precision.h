// Precision as a rewrite of a training graph: what an op takes in 16 bits (its `narrow` rule) is rounded on the way to it, once
// for all that read it. Parameters, their gradients' sums and whatever no rule names stay fp32. It comes after the gradients,
// which are those of the graph in fp32, and before anything is planned: it is the same for every budget.
#pragma once

#include "graph/graph.h"

namespace plimsoll {

// Rewrites all sections but the update. fp32 changes nothing.
void apply_precision(Graph& graph, DType compute);

}  // namespace plimsoll
