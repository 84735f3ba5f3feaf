// Alternatives to a configuration: each lever alone, and the cheapest changes that make it fit. Each alternative has been planned
// itself.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "prepare/planning.h"

namespace plimsoll {

// The bytes of a training that can rest on other tiers: in all, and of the optimizer state alone.
struct Leaving {
  Bytes all, state;
};
Leaving leaving_of(const Config& config, const PlanningInput& input);

// Alternatives are planned one after the other until they have taken this much work (PlanningEffort::work), earlier planning
// included: about ten seconds of a processor. The array `left_out` of plimsoll.plan/1 names the alternatives that were skipped,
// for lack of work or of memory for planning.
inline constexpr double kMostAlternativeWork = 10 * kWorkPerSecond;

// The cost of planning before the alternatives: `work` for other values of a solved key; `own` work and `memory` for the request
// itself.
struct Spent {
  double work = 0, own = 0;
  Bytes memory;
};

// Adds the array `levers` to an object of plimsoll.plan/1: the effect of each lever on `plan`, which `space` gave for the budget.
// A lever is planned within the budget if it fits, else without a budget. The fastest comes first; levers that change neither
// bytes nor seconds are left out.
void add_levers(nlohmann::json& object, const Config& config, const PlanningInput& input, PlanSpace& space, const Plan& plan,
                const Spent& spent);
// Adds the array `infeasible.remedies`: remedies that leave results unchanged come first, then the order is by cost. `floor` and
// `knee`: process bytes of the request. No disk is measured: an unmeasured disk counts with kAssumedDiskRate, and the
// remedy says so. With little memory, or if the request is for floors alone, only the smallest plan of each is made.
void add_remedies(nlohmann::json& object, const Config& config, const PlanningInput& input, Bytes floor, Bytes knee,
                  const Spent& spent);

}  // namespace plimsoll
