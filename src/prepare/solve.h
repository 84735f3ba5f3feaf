// `plan --solve KEY`: the largest value of a key whose plan fits the budget; for a budget, the least value. The search plans only
// floors, then the whole plan of the value that it found.
#pragma once

#include <string_view>

#include "prepare/planning.h"

namespace plimsoll {

// The plan of that value, with the object `solve`: {key, value, step, arguments, next, plans}. `next` is the value one step
// further, which was tried as well: {value, status: "infeasible" | "refused", code, message, process_bytes, short_bytes}. If not
// even the first value fits: the refusal of that value, with remedies, and `value` null. Requires `input.source`. Throws the
// errors of solve_key, and the refusal of the first value if rules rather than its size refuse it.
PlanningResult solve(const Config& config, PlanningInput input, std::string_view key, const PlanExtras& extras);

}  // namespace plimsoll
