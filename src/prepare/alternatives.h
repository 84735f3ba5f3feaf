// What else could be done with a configuration: each lever alone, and the cheapest changes with which it fits. Each has been
// planned itself.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "prepare/planning.h"

namespace plimsoll {

// What a training can leave to other tiers: all of it, and the optimizer state alone.
struct Leaving {
  Bytes all, state;
};
Leaving leaving_of(const Config& config, const PlanningInput& input);

// The array `levers` of plimsoll.plan/1: what each changes of `plan`, which `space` gave for the budget. Within the budget where
// it fits, else without one. The fastest first; what changes neither bytes nor seconds is left out.
nlohmann::json levers(const Config& config, const PlanningInput& input, PlanSpace& space, const Plan& plan);
// The array `infeasible.remedies`: what leaves results as they are comes first, then by what it takes. `floor` and `knee` are
// process bytes of what was asked for. No disk is measured: one that nobody has measured counts as kAssumedDiskRate, which the
// remedy says.
nlohmann::json remedies(const Config& config, const PlanningInput& input, Bytes floor, Bytes knee);

}  // namespace plimsoll
