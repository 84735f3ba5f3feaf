// A plan as JSON (schema plimsoll.plan/1): what `plan --json` prints and plan.json stores, and the part of it that a replay
// needs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"

namespace plimsoll {

// What numbers are: of activations and of what is computed with them, of the weights, of their gradients' sums, of the optimizer.
struct PrecisionNames {
  std::string_view compute = "fp32", storage = "fp32", accumulation = "fp32", optimizer_state = "fp32";
};

// Facts about the request that a plan itself does not hold.
struct PlanContext {
  Budget budget;
  std::string config_hash;
  PrecisionNames precision;
  double planning_seconds = 0;
};

nlohmann::json to_json(const Plan& plan, const PlanContext& context, bool values);
nlohmann::json to_json(const Infeasible& infeasible, const PlanContext& context, int threads);
// A list by growing bytes; each point says what a MiB more saves on the way to the next, the last null.
nlohmann::json to_json(const std::vector<FrontierPoint>& frontier);

// What another process or a file decided: enough to rebuild the plan, byte for byte, from the configuration.
struct PlanRecord {
  PlanDecisions decisions;
  std::vector<Bytes> offsets;  // per buffer
  std::string graph_hash, plan_hash;
};
PlanRecord record_of(const Plan& plan);
nlohmann::json to_json(const PlanRecord& record);
// Throws config_error E-PLAN-FILE where the object is not a plan.
PlanRecord record_from_json(const nlohmann::json& json);

}  // namespace plimsoll
