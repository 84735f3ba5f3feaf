// A simulated graph that keeps everything, as a problem of recomputation, and schedules for it.
#pragma once

#include <vector>

#include "plan/machine.h"
#include "plan/passes/replay.h"
#include "plan/replays/search.h"
#include "plan/simulation.h"

namespace plimsoll::replays {

// The steps of a micro-step as a problem. Items are the values with a buffer of their own that do not live through the whole
// micro-step. Ops may run again after an early update of their inputs: the clone is in the micro-step, and the update waits for
// it (plan/timeline).
struct GraphProblem {
  Problem problem;
  std::vector<NodeId> nodes;  // of each op; invalid for steps that run none
  std::vector<char> follows;  // by op: true if it repeats another node for another micro-batch
  std::vector<NodeId> likes;  // of each op: its node, or the node that it repeats
};

// `narrow`: Residency::by_matrix. `link`: prices exchanges between ranks. `least_loss_scratch`: the least scratch of the chunked
// loss over all its numbers of chunks.
GraphProblem problem_of(const Simulation& simulation, const std::vector<Unit>& units, bool narrow,
                        std::int64_t least_loss_scratch, const RankLink& link = {});

// The replays of ops as replays of nodes, without those of nodes that repeat another one for another micro-batch: grouping
// repeats these. Reads no part of `graph.problem`.
std::vector<NodeReplay> nodes_of(const GraphProblem& graph, const std::vector<Replay>& replays);

// Schedules for falling bytes, from keeping everything down to the point where none is found. They do not depend on the budget.
std::vector<std::vector<Replay>> schedules(const Problem& problem);

}  // namespace plimsoll::replays
