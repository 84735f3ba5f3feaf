// The differences between two plans: every decision and prediction as a path with both sides, and the values that moved, changed
// their size, appeared or vanished.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/commands.h"

namespace plimsoll {

// The compared parts of a plan object: {facts, values}. Lists are objects by the names of their elements; a value is {action,
// tier, bytes, offset}; `values` is null if the plan lists none. Throws nlohmann::json::exception if the object is no plan.
nlohmann::ordered_json compared_part(const nlohmann::json& plan);
// The differences between two such parts: plimsoll.plan-diff/1. A path is a JSON pointer into the facts, or /values/NAME; a side
// is null if the plan of that side lacks the path.
nlohmann::ordered_json plan_diff(const nlohmann::ordered_json& a, const nlohmann::ordered_json& b);

// A diff for people: sections of the plan, blocks with the same change in one line, values by action and the ten largest.
std::string diff_text(const nlohmann::ordered_json& diff);

// `plan --diff`.
int run_plan_diff(const PlanArguments& arguments);

}  // namespace plimsoll
