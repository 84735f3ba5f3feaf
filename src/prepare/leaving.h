// The bytes of a training that can rest on other tiers.
#pragma once

#include "prepare/planning.h"

namespace plimsoll {

// In all, and of the optimizer state alone.
struct Leaving {
  Bytes all, state;
};
Leaving leaving_of(const Config& config, const PlanningInput& input);

}  // namespace plimsoll
