// The lanes of a micro-step in which everything is kept, by ops, so that the waits of any plan follow without a simulation: what
// runs again only adds kernels, and may need earlier what is on its way.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/replays/from_graph.h"
#include "plan/simulation.h"
#include "plan/tiers/lanes.h"

namespace plimsoll {

class TierLanes {
 public:
  // `keep` may go afterwards; the problem has to stay.
  TierLanes(const Simulation& keep, const replays::GraphProblem& graph, const Paging& paging, const Machine& machine);

  // Seconds of a micro-step in which kernels wait, on average over the rounds of a window. The replays by their places.
  double stall(const std::vector<replays::Replay>& replays) const;
  // By unit: what kernels wait for in the backward pass of the next unit if everything is kept. Kernels that run in this unit's
  // backward pass hide as much.
  std::vector<double> slack(std::size_t units) const;

 private:
  struct OpEvents {
    LaneEvents events;
    Transfer transfer = Transfer::none;
    int value = -1, unit = -1;  // of what a transfer moves
    bool written = false, backward = false;
  };

  std::vector<int> fetches_by_first_use(const std::vector<replays::Replay>& replays) const;
  void run(LaneClock& clock, const std::vector<replays::Replay>& replays) const;

  const replays::Problem* problem_;
  std::vector<OpEvents> ops_;
  std::vector<std::vector<int>> transfers_of_;  // by value: ops, ascending
  std::int64_t rounds_;
};

}  // namespace plimsoll
