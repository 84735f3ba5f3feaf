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

// Alternatives are planned one after the other until they have taken this much work (PlanningEffort::work), with that which came
// before them: about ten seconds of a processor. The array `left_out` of plimsoll.plan/1 names the others, and those that the
// memory for planning does not suffice for.
inline constexpr double kMostAlternativeWork = 10 * kWorkPerSecond;

// What planning took before alternatives are looked at: `work` of other values of a solved key, `memory` of the request itself.
struct Spent {
  double work = 0;
  Bytes memory;
};

// Adds the array `levers` to an object of plimsoll.plan/1: what each changes of `plan`, which `space` gave for the budget. Within
// the budget where it fits, else without one. The fastest first; what changes neither bytes nor seconds is left out.
void add_levers(nlohmann::json& object, const Config& config, const PlanningInput& input, PlanSpace& space, const Plan& plan,
                const Spent& spent);
// Adds the array `infeasible.remedies`: what leaves results as they are comes first, then by what it takes. `space` and `floor`,
// process bytes, are of what was asked for. No disk is measured: one that nobody has measured counts as kAssumedDiskRate, which
// the remedy says. With little memory, or if the request asks for floors alone, only the smallest plan of each is looked at.
void add_remedies(nlohmann::json& object, const Config& config, const PlanningInput& input, PlanSpace& space, Bytes floor,
                  const Spent& spent);

}  // namespace plimsoll
