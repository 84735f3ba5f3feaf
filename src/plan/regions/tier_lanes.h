// The lanes of a micro-step that keeps everything, by ops. The waits of any plan follow without a simulation: replays only add
// kernels, and may need transfers earlier.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/regions/from_graph.h"
#include "plan/simulation.h"
#include "plan/tiers/lanes.h"

namespace plimsoll {

class TierLanes {
 public:
  // `keep` may go afterwards; the problem has to stay.
  TierLanes(const Simulation& keep, const replays::GraphProblem& graph, const Residency& residency, const Machine& machine);

  // Per plan, given by its replays in order of place: seconds of a micro-step in which kernels wait, on average over the rounds
  // of a window. Plans with a common prefix share its evaluation.
  std::vector<double> stalls(const std::vector<std::vector<replays::Replay>>& plans) const;

 private:
  struct OpEvents {
    LaneEvents events;
    Transfer transfer = Transfer::none;
    int value = -1, unit = -1;  // of the transferred value; `value`: its index in `moved_`
    bool written = false, backward = false;
  };
  struct Moved {                         // a value that comes from another tier
    std::vector<int> transfers;          // fetches and waits: ops, ascending
    int unit = -1, backward_fetch = -1;  // its last fetch of a backward pass
  };

  // The progress of a plan when an op begins: in the first micro-step of a window, and in a later one.
  struct Progress {
    std::vector<char> done;  // by op
    LaneClock first{true}, later{false};
    int op = 0;
    std::size_t replays = 0;
  };

  // `instead`: by op, the op that runs in its place: another fetch or itself. Returns the first op for which that changes.
  int order_fetches(const std::vector<replays::Replay>& replays, std::vector<int>& instead) const;
  void advance(Progress& now, const std::vector<replays::Replay>& replays, const std::vector<int>& fetches) const;

  const replays::Problem* problem_;
  std::vector<OpEvents> ops_;
  std::vector<Moved> moved_;
  // The unit that the backward pass enters first: its changed values come in with the values that are only read.
  int first_unit_ = replays::kNone;
  std::vector<std::vector<int>> reads_;  // by op: indices of the values that come in for it before its unit's pass begins
  std::vector<std::vector<int>> needs_;  // by op: indices of all values that it needs
  std::vector<int> needing_;             // ops of the backward pass with such reads, ascending
  std::vector<int> fetching_;            // fetches of the backward pass, ascending
  std::vector<int> begin_;               // by unit: the beginning of its values in a list of all
  std::int64_t rounds_;
};

}  // namespace plimsoll
