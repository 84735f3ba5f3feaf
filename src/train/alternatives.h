// What else could be done with a configuration: each lever alone, and the cheapest changes with which it fits. Each has been
// planned itself.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "train/planning.h"

namespace plimsoll {

// The array `levers` of plimsoll.plan/1: each against the plan that keeps everything at the largest micro-batch.
nlohmann::json levers(const Config& config, const PlanningInput& input);
// The array `infeasible.remedies`, cheapest for the result first. `floor`: bytes of the smallest plan that there is.
nlohmann::json remedies(const Config& config, const PlanningInput& input, Bytes floor);

}  // namespace plimsoll
