// A lower bound on the arena that holds for every schedule of a graph's ops in which each gradient is computed once, whatever is
// recomputed and in whatever order: the largest working set of one step, with what must live beside it.
#pragma once

#include <cstdint>
#include <limits>

#include "plan/simulation.h"

namespace plimsoll {

// `simulation` keeps everything. `least_loss_scratch`: of the chunked loss, over all its numbers of chunks.
// `enough`: past this it need not be known, and what is returned is a bound as well.
Bytes working_set_bound(const Simulation& simulation, Bytes least_loss_scratch,
                        Bytes enough = Bytes{std::numeric_limits<std::int64_t>::max()});

}  // namespace plimsoll
