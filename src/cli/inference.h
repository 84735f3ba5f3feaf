// Plans for commands that only run weights forward: one section, no search.
#pragma once

#include "config/config.h"
#include "measure/machine_file.h"
#include "plan/plan.h"
#include "prepare/setup.h"

namespace plimsoll {

// The budget that was asked for, or what the machine has; E-MEM-MACHINE (exit 3) where it has less than that.
Bytes inference_budget(const MemorySettings& memory);

struct InferencePlan {
  InferenceGraph graph;
  Plan plan;
  std::int64_t batch = 1;
  bool fits = true;
};
// `vocabulary`: heap that stays beside the plan's own, charged to the process.
InferencePlan plan_inference(InferenceGraph graph, std::int64_t batch, const MachineRecord& machine, Bytes budget,
                             Bytes vocabulary = {});
// Throws E-PLAN-FIT (exit 3) where the plan does not fit.
void require_fit(const InferencePlan& plan, Bytes budget);

}  // namespace plimsoll
