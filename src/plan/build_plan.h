// From decisions to a plan: rewrite the graph, simulate, place, count, hash. The planner calls it for each rung that it examines.
// A run calls it with given addresses to rebuild the plan of another process.
#pragma once

#include <vector>

#include "plan/node_kernels.h"
#include "plan/plan.h"

namespace plimsoll {

// `graph`: the graph of decisions.micro_batch; `units`: its units. With `offsets` (one per buffer) nothing is laid out: the
// judge checks them, and E-PLAN-REPLAY reports the first violation.
Plan build_plan(const Graph& graph, const std::vector<Unit>& units, const PlanDecisions& decisions, const PlanRequest& request,
                const Machine& machine, NodeKernels& kernels, const std::vector<Bytes>* offsets);
Plan build_plan(const Graph& graph, const std::vector<Unit>& units, const PlanDecisions& decisions, const PlanRequest& request,
                const Machine& machine, KernelCatalogue& catalogue, const std::vector<Bytes>* offsets);

}  // namespace plimsoll
