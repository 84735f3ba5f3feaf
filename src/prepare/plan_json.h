// A plan as JSON (schema plimsoll.plan/1), the output of `plan --json` and the content of plan.json; and the part of it that a
// replay needs.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/remedy.h"
#include "models/pixel_norm.h"
#include "plan/plan.h"
#include "plan/search/space.h"

namespace plimsoll {

// Number formats of activations and arithmetic, weights, gradient sums and optimizer state.
struct PrecisionNames {
  std::string_view compute = "fp32", storage = "fp32", accumulation = "fp32", optimizer_state = "fp32";
};

// Facts about a plan's request that the plan does not hold.
struct PlanContext {
  Budget budget;
  std::string config_hash;
  PrecisionNames precision;
  double planning_seconds = 0;
  std::int64_t stat_batch = 0;           // samples that share statistics (config/image_rules.h); 0: none do
  std::optional<PixelNorm> pixels = {};  // the normalisation of images
};

nlohmann::json bytes_or_null(const std::optional<Bytes>& bytes);
// The remedy of a plan file that does not fit: another plan of the configuration.
Remedy new_plan();

nlohmann::json to_json(const Plan& plan, const PlanContext& context, bool values);
// Parts of it: seconds of the lanes of an update; the live bytes over the steps (plan/memory_series.h); a list of reserves.
nlohmann::json lanes_json(const Plan& plan);
nlohmann::json timeline_json(const Plan& plan, std::size_t most_points);
nlohmann::json reserve_json(const std::vector<ReserveItem>& items);
nlohmann::json to_json(const Infeasible& infeasible, const PlanContext& context, int threads);
// Points by growing bytes; each has the seconds saved per additional MiB on the way to the next point, null for the last.
nlohmann::json to_json(const std::vector<FrontierPoint>& frontier);

// The decisions of another process or of a file: enough to rebuild the plan, byte for byte, from the configuration.
struct PlanRecord {
  PlanDecisions decisions;
  std::vector<Bytes> offsets;  // per buffer
  std::string graph_hash, plan_hash;
};
PlanRecord record_of(const Plan& plan);
nlohmann::json to_json(const PlanRecord& record);
// Throws config_error E-PLAN-FILE if the object is not a plan.
PlanRecord record_from_json(const nlohmann::json& json);

}  // namespace plimsoll
