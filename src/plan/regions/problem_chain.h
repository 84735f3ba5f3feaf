// Solves recomputation of a whole problem by its chain of regions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/regions/chain.h"
#include "plan/regions/edges.h"
#include "plan/replays/eviction.h"
#include "plan/replays/regions.h"

namespace plimsoll::regions {

class ProblemChain {
 public:
  // The problem outlives this. The plan that keeps everything has to be valid.
  ProblemChain(const replays::Problem& problem, const EdgeLimits& limits);

  const Regions& regions() const { return regions_; }
  const std::vector<std::vector<Edge>>& edges() const { return edges_; }
  // Peak live bytes if everything is kept: between the passes, and at ops that no choice changes.
  std::int64_t between() const { return between_; }
  std::int64_t outside() const { return outside_; }

  std::vector<ChainPlan> solve(std::size_t most, std::int64_t* labels = nullptr) const;
  // The fastest plan within `bytes`, as a schedule that `evaluate` has accepted; none if none fits.
  std::optional<replays::Schedule> fastest_within(std::int64_t bytes) const;

 private:
  const replays::Problem& problem_;
  Regions regions_;
  std::vector<std::vector<Edge>> edges_;
  std::int64_t between_ = 0, outside_ = 0;
};

}  // namespace plimsoll::regions
