// A simulated graph that keeps everything, as a problem of recomputation, and schedules for it.
#pragma once

#include <vector>

#include "plan/passes/replay.h"
#include "plan/replays/search.h"
#include "plan/simulation.h"

namespace plimsoll::replays {

// Of the steps of a micro-step. Items are what lives in bytes of its own and not through the whole of it. Ops may run again
// behind an early update of what they read: the clone is in the micro-step, and the update waits for it (plan/timeline).
struct GraphProblem {
  Problem problem;
  std::vector<NodeId> nodes;  // of each op; invalid for steps that run none
  std::vector<char> follows;  // by op: it only repeats another node for another micro-batch
};

// `least_loss_scratch`: of the chunked loss, over all its numbers of chunks. `narrow`: as of the paging.
GraphProblem problem_of(const Simulation& simulation, const std::vector<Unit>& units, bool narrow,
                        std::int64_t least_loss_scratch);

// The replays of ops as those of nodes. What only repeats another node follows from that one. Does not need the problem any more.
std::vector<NodeReplay> nodes_of(const GraphProblem& graph, const std::vector<Replay>& replays);

// Schedules for bytes from what keeping everything needs down to where none is found: always the same ones, whatever the budget.
std::vector<std::vector<Replay>> schedules(const Problem& problem);

}  // namespace plimsoll::replays
