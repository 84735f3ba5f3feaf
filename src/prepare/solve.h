// `plan --solve KEY`: the largest value of a key whose plan fits the budget; for a budget, the least value. The search plans
// floors alone, and then the whole plan of the found value.
#pragma once

#include <string_view>

#include "prepare/planning.h"

namespace plimsoll {

// The plan of that value, with the object `solve`: {key, least, value, step, changes, next, plans, notes}. `next` is the value
// one step further, which was tried as well: {value, status: "infeasible" | "refused", code, message, process_bytes,
// short_bytes}. If no value fits, `value` is null, and the result is the refusal of the most favourable value, with remedies.
// Requires `input.source`. Throws the errors of solve_key, and the error of that value if a rule refuses it.
PlanningResult solve(const Config& config, PlanningInput input, std::string_view key, const PlanExtras& extras);

}  // namespace plimsoll
