// A lower bound on the arena that holds for every schedule of a graph's ops in which each gradient is computed once, whatever is
// recomputed and in whatever order: the largest working set of one step plus the values that must live at the same time.
#pragma once

#include <cstdint>
#include <limits>

#include "plan/simulation.h"

namespace plimsoll {

// `simulation` keeps everything. `least_loss_scratch`: the least scratch of the chunked loss over all its numbers of chunks.
// `enough`: the search stops at this bound, and the result is still a lower bound.
Bytes working_set_bound(const Simulation& simulation, Bytes least_loss_scratch,
                        Bytes enough = Bytes{std::numeric_limits<std::int64_t>::max()});

}  // namespace plimsoll
