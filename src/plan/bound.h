// A lower bound on the arena that holds for every schedule of a graph's ops in which each gradient is computed once, whatever is
// recomputed and in whatever order: the largest working set of one step, with what must live beside it.
#pragma once

#include "plan/candidates.h"

namespace plimsoll {

// `simulation` keeps everything. `least_loss_scratch`: of the chunked loss, over all its numbers of chunks.
Bytes working_set_bound(const Simulation& simulation, Bytes least_loss_scratch);

}  // namespace plimsoll
