// Precision as a rewrite of a training graph. What all its readers take in 16 bits (`narrow`, `either`) is made in 16 bits where
// its op can do that (`rounded`, `alike`). What some of them take in 16 bits alone (`narrow`) is rounded on the way to them, once
// for all of these. Parameters, their gradients' sums and whatever no rule names stay fp32. It comes after the gradients, which
// are those of the graph in fp32, and before anything is planned: it is the same for every budget.
#pragma once

#include "graph/graph.h"

namespace plimsoll {

// Rewrites all sections but the update. fp32 changes nothing.
void apply_precision(Graph& graph, DType compute);

}  // namespace plimsoll
