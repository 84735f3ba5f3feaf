// The cheapest changes that make a refused training fit. Each has been planned itself.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "prepare/alternatives.h"

namespace plimsoll {

// Adds the array `infeasible.remedies`: remedies that leave results unchanged come first, then the order is by cost. `floor` and
// `knee`: process bytes of the request. No disk is measured: an unmeasured disk counts with kAssumedDiskRate, and the
// remedy says so. With little memory, or if the request is for floors alone, only the smallest plan of each is made.
void add_remedies(nlohmann::json& object, const Config& config, const PlanningInput& input, Bytes floor, Bytes knee,
                  const Spent& spent, const AskedPrompts& asked);

}  // namespace plimsoll
