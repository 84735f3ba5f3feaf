// Precision as a rewrite of a training graph. A value is made in 16 bits if all its readers accept that (`narrow`, `either`) and
// its op can make it (`rounded`, `alike`). Several outputs of an op are narrow all or none (`rounds`); a backward op rounds like
// its forward op (`again`). Other values are rounded once for the readers that need 16 bits (`narrow`), parameters and gradients
// once for each line. All else stays fp32. The rewrite comes after the gradients and before planning, so it is the same for every
// budget.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace plimsoll {

// Counts of zeros and subnormal numbers in a window's fp16 gradients, which show underflow. The gradient of the logits is rounded
// within the head and does not count.
struct UnderflowMeter {
  std::vector<std::string> gradients;  // their names
  ValueId report;                      // f64[ops::kCounts gradients], fetched after each update
};

// Rewrites all sections but the update. fp32 changes nothing. With bf16 for both `compute` and `parameters`, matrices and tables
// are stored in bf16 if all their readers accept it, and their updates write bf16. With fp16 small gradients are counted.
std::optional<UnderflowMeter> apply_precision(Graph& graph, DType compute, DType parameters = DType::f32);

// The parameters that only products read, as operands that they round.
std::vector<ValueId> read_by_products(const Graph& graph);

}  // namespace plimsoll
