// The chain program decides on every region, for all budgets at once. A plan is a path of edges from the first region to the
// last. A suffix of the chain is one stretch of time, so two numbers describe it: the most that is live in it while all regions
// before it keep everything, and its seconds. The regions before it only add to these numbers, so a suffix that another one
// dominates is dropped. Bytes are not rounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/regions/edges.h"

namespace plimsoll::regions {

// A choice after the last region: the loss with a number of chunks.
struct End {
  std::int64_t bytes = 0;  // peak live bytes between the passes if all regions keep everything
  double seconds = 0;
};

struct ChainPlan {
  std::int64_t bytes = 0;  // the most that is live
  double seconds = 0;      // of replays and of the end
  int end = 0;             // index of the end
  std::vector<const Edge*> edges;
};

// The replays of a path, ordered by place.
std::vector<replays::Replay> replays_of(const std::vector<const Edge*>& path);

// The plans that no other beats, from the most bytes to the fewest. `outside`: bytes that no choice changes. `most`: labels that
// each region keeps; beyond it, those closest to others are dropped. `labels`, if given, grows by the number of labels examined.
std::vector<ChainPlan> solve_chain(const std::vector<std::vector<Edge>>& edges, const std::vector<End>& ends,
                                   std::int64_t outside, std::size_t most, std::int64_t* labels = nullptr);

}  // namespace plimsoll::regions
