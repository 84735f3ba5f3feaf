// Precision as a rewrite of a training graph. What all its readers take in 16 bits (`narrow`, `either`) is made in 16 bits
// where its op can do that (`rounded`, `alike`); several outputs of an op are so all or none (`rounds`), and a backward op
// rounds again as its forward op does (`again`). What some of them take in 16 bits alone (`narrow`) is rounded on the way to
// them, once for all of these; parameters and gradients once for all of a line. Parameters (unless that is asked for), their
// gradients' sums and whatever no rule names stay fp32. It comes after the gradients, which are those of the graph in fp32, and
// before anything is planned: it is the same for every budget.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace plimsoll {

// How much of the gradients of a window fp16 could not hold. That of the logits, which is rounded within the head, does not
// count.
struct UnderflowMeter {
  std::vector<std::string> gradients;  // their names
  ValueId report;                      // f64[ops::kCounts gradients], fetched after each update
};

// Rewrites all sections but the update. fp32 changes nothing. With `parameters` of bf16, which `compute` has to be as well,
// matrices and tables are that themselves, where all that reads them takes it, and their updates write it. With fp16 small
// gradients are counted.
std::optional<UnderflowMeter> apply_precision(Graph& graph, DType compute, DType parameters = DType::f32);

// The parameters that products read and nothing else: as operands that they take rounded.
std::vector<ValueId> read_by_products(const Graph& graph);

}  // namespace plimsoll
