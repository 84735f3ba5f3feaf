// `plan --solve KEY`: the largest value of a key with which a plan fits the budget; of a budget the least. Only floors are
// planned on the way, and the whole plan of the value that was found.
#pragma once

#include <string_view>

#include "prepare/planning.h"

namespace plimsoll {

// The plan of that value, with the object `solve` beside it: {key, value, step, arguments, next, plans}. `next` is the value a
// step further, which was tried as well: {value, status: "infeasible" | "refused", code, message, process_bytes, short_bytes}.
// Where not even the first value fits, that value's refusal, with remedies, and `value` null. `input.source` is there. Throws
// what solve_key throws, and the refusal of the first value where rules refuse it rather than its size.
PlanningResult solve(const Config& config, PlanningInput input, std::string_view key, const PlanExtras& extras);

}  // namespace plimsoll
