// All plans of one micro-batch size, paging and group, from one simulation that keeps everything: its micro-step is a problem of
// recomputation, cut into a chain of regions (plan/regions).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "plan/regions/chain.h"
#include "plan/replays/from_graph.h"
#include "plan/simulation.h"
#include "plan/tiers/tier_lanes.h"

namespace plimsoll {

// The loss in so many chunks: the scratch of the loss that needs most; the seconds of all losses of a micro-step, with what they
// wait more than in the simulation.
struct LossChunks {
  std::int64_t scratch = 0;
  double seconds = 0;
};

class RegionPlans {
 public:
  // The simulation keeps everything.
  RegionPlans(const Simulation& keep, const std::vector<Unit>& units, const Paging& paging, const Machine& machine,
              const std::vector<LossChunks>& chunks, RecomputePolicy policy, regions::KnownWays& known);

  // What decides on every op by itself, whatever the regions: more plans.
  void add_schedules();
  // Gives back the problem and the lanes, which only schedules need; none can be added afterwards.
  void end_schedules();
  // Gives back edges that are on the path of no plan, which are most of them.
  void forget_other_edges();
  // Gives back all plans.
  void forget_plans();

  // From the most live bytes to the fewest; then those of schedules. Seconds are those of clones, losses and waits in a
  // micro-step, ends are numbers of LossChunks.
  const std::vector<regions::ChainPlan>& plans() const { return plans_; }
  std::vector<NodeReplay> replays(const regions::ChainPlan& plan) const {
    return replays::nodes_of(*graph_, replays_of(plan.edges));
  }

  // Labels of the chain program that were looked at.
  std::int64_t labels() const { return labels_; }
  // Of the chain, for whoever composes paths of its own: the edges of each region, what stands behind the last one, and the bytes
  // that no choice changes.
  const std::vector<std::vector<regions::Edge>>& edges() const { return edges_; }
  const std::vector<regions::End>& ends() const { return ends_; }
  std::int64_t outside() const { return outside_; }

  // Whether the bytes are exact; else they are an upper bound.
  bool exact() const { return exact_; }
  // Whether the seconds are; else a simulation of the plan tells them.
  bool exact_seconds() const { return exact_seconds_; }

 private:
  void add(std::vector<regions::ChainPlan> plans);

  std::unique_ptr<replays::GraphProblem> graph_;
  std::vector<std::vector<regions::Edge>> edges_;
  std::vector<std::int64_t> live_;  // by op, where everything is kept; without the scratch of a loss between the passes
  std::vector<int> losses_;         // ops: losses between the passes
  std::deque<regions::Edge> schedules_;
  std::vector<LossChunks> chunks_;
  std::optional<TierLanes> lanes_;  // where something rests on another tier, until schedules end
  std::vector<regions::End> ends_;
  std::int64_t outside_ = 0;
  std::int64_t around_ = 0;  // what is live in other phases and in the update, which no schedule changes either
  std::vector<regions::ChainPlan> plans_;
  std::size_t of_chain_ = 0;  // the first plans; the others are schedules
  std::int64_t labels_ = 0;
  bool exact_ = true, exact_seconds_ = true;
};

}  // namespace plimsoll
