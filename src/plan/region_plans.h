// All plans of one micro-batch size and group whose values stay in memory, from one simulation that keeps everything: its
// micro-step is a problem of recomputation, cut into a chain of regions (plan/regions).
#pragma once

#include <cstdint>
#include <vector>

#include "plan/regions/chain.h"
#include "plan/replays/from_graph.h"
#include "plan/simulation.h"

namespace plimsoll {

// The loss in so many chunks: the scratch of the loss that needs most, the seconds of all losses of a micro-step.
struct LossChunks {
  std::int64_t scratch = 0;
  double seconds = 0;
};

class RegionPlans {
 public:
  // The simulation keeps everything.
  RegionPlans(const Simulation& keep, const std::vector<LossChunks>& chunks, RecomputePolicy policy);

  // From the most live bytes to the fewest, each faster than all smaller ones; `end` is the number of a LossChunks. Seconds are
  // those of clones and losses in a micro-step.
  const std::vector<regions::ChainPlan>& plans() const { return plans_; }
  std::vector<NodeReplay> replays(const regions::ChainPlan& plan) const;
  // Whether the bytes are exact; else they are an upper bound.
  bool exact() const { return exact_; }

 private:
  std::vector<NodeId> nodes_;  // by op
  std::vector<char> first_;    // by op: it stands for those that repeat it for other micro-batches
  std::vector<std::vector<regions::Edge>> edges_;
  std::vector<regions::ChainPlan> plans_;
  bool exact_ = true;
};

}  // namespace plimsoll
