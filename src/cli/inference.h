// Plans for commands that only run weights forward: one section, no search.
#pragma once

#include <optional>

#include "plan/plan.h"
#include "train/machine_file.h"
#include "train/setup.h"

namespace plimsoll {

struct InferencePlan {
  InferenceGraph graph;
  Plan plan;
  std::int64_t batch = 1;
  bool fits = true;
};
InferencePlan plan_inference(InferenceGraph graph, std::int64_t batch, const MachineRecord& machine,
                             const std::optional<Bytes>& budget);
// Throws E-PLAN-FIT (exit 3) where the plan does not fit.
void require_fit(const InferencePlan& plan, const std::optional<Bytes>& budget);

}  // namespace plimsoll
