// What a layout hands back to the schedule: two buffers of its conflict that need not live at the same time.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "plan/passes/late.h"
#include "plan/simulation.h"

namespace plimsoll {

// A transfer in that begins behind the last step of something else, which ends before the transfer is waited for: of those pairs
// of the buffers, but for what was refused before, the one that moves least. Empty where there is none.
std::optional<LateFetch> keep_apart(const Simulation& simulation, const std::vector<std::size_t>& conflict,
                                    const std::vector<LateFetch>& refused);

}  // namespace plimsoll
