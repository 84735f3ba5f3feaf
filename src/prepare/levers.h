// Other decisions and their effects on a plan, one at a time. Each has been planned itself.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "prepare/alternatives.h"

namespace plimsoll {

// Adds the array `levers` to an object of plimsoll.plan/1: the effect of each lever on `plan`, which `space` gave for the budget.
// A lever is planned within the budget if it fits, else without a budget. The fastest comes first; levers that change neither
// bytes nor seconds are left out.
void add_levers(nlohmann::json& object, const Config& config, const PlanningInput& input, PlanSpace& space, const Plan& plan,
                const Spent& spent, const AskedPrompts& asked);

}  // namespace plimsoll
