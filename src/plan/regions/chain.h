// The chain program: what every region does, for all budgets at once. A plan is a path of edges from the first region to the
// last. A suffix of the chain is one stretch of time, so two numbers describe it: the most that is live in it while all regions
// before it keep everything, and its seconds. What comes before only adds to these, so of two suffixes the one that is better in
// nothing is dropped, and no bytes are rounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/regions/edges.h"

namespace plimsoll::regions {

// What may stand behind the last region: the loss in so many chunks.
struct End {
  std::int64_t bytes = 0;  // the most that is live between the passes, if all regions keep everything
  double seconds = 0;
};

struct ChainPlan {
  std::int64_t bytes = 0;  // the most that is live
  double seconds = 0;      // of what runs again, and of the end
  int end = 0;             // which of the ends
  std::vector<const Edge*> edges;
};

// The replays of a path, by their places.
std::vector<replays::Replay> replays_of(const std::vector<const Edge*>& path);

// The plans that no other beats, from the most bytes to the fewest. `outside`: bytes that no choice changes. `most`: labels that
// each region keeps; past them those go that lie closest to others. `labels`, if given, grows by those that were looked at.
std::vector<ChainPlan> solve_chain(const std::vector<std::vector<Edge>>& edges, const std::vector<End>& ends,
                                   std::int64_t outside, std::size_t most, std::int64_t* labels = nullptr);

}  // namespace plimsoll::regions
