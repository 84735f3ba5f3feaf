// All plans of one micro-batch size, paging and group, from one simulation that keeps everything: its micro-step is a problem of
// recomputation, cut into a chain of regions (plan/regions).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "plan/regions/chain.h"
#include "plan/regions/from_graph.h"
#include "plan/regions/tier_lanes.h"
#include "plan/request.h"
#include "plan/simulation.h"

namespace plimsoll {

// The losses of a micro-step with one number of chunks.
struct LossChunks {
  std::int64_t scratch = 0;  // bytes: of all losses if they stream together, else of the largest
  double seconds = 0;        // of all losses, and of their waits in addition to those in the simulation
};

class RegionPlans {
 public:
  // The simulation keeps everything.
  RegionPlans(const Simulation& keep, const std::vector<Unit>& units, const Residency& residency, const Machine& machine,
              const std::vector<LossChunks>& chunks, RecomputePolicy policy, regions::KnownWays& known);

  // Adds plans that decide on every op by itself, independent of regions.
  void add_schedules();
  // Frees the problem and the lanes, which only schedules need; no schedules can be added afterwards.
  void end_schedules();
  // Frees the edges that no plan uses, which are most of them.
  void forget_other_edges();
  // Frees all plans.
  void forget_plans();

  // From the most live bytes to the fewest; then those of schedules. Seconds: clones, losses and waits of a micro-step. Ends:
  // indices of LossChunks.
  const std::vector<regions::ChainPlan>& plans() const { return plans_; }
  std::vector<NodeReplay> replays(const regions::ChainPlan& plan) const {
    return replays::nodes_of(*graph_, replays_of(plan.edges));
  }

  // Labels of the chain program examined so far.
  std::int64_t labels() const { return labels_; }
  // The chain, for callers that compose their own paths: the edges of each region, the ends after the last one, and the bytes
  // that no choice changes.
  const std::vector<std::vector<regions::Edge>>& edges() const { return edges_; }
  const std::vector<regions::End>& ends() const { return ends_; }
  std::int64_t outside() const { return outside_; }

  // True if the bytes are exact; otherwise they are an upper bound.
  bool exact() const { return exact_; }
  // True if the seconds are exact; otherwise only a simulation of the plan yields them.
  bool exact_seconds() const { return exact_seconds_; }

 private:
  void add(std::vector<regions::ChainPlan> plans);

  std::unique_ptr<replays::GraphProblem> graph_;
  std::vector<std::vector<regions::Edge>> edges_;
  std::vector<std::int64_t> live_;  // by op, if everything is kept; without the scratch of a loss between the passes
  std::vector<int> losses_;         // ops: losses between the passes
  std::deque<regions::Edge> schedules_;
  std::vector<LossChunks> chunks_;
  std::optional<TierLanes> lanes_;  // if values rest on another tier, until end_schedules()
  std::vector<regions::End> ends_;
  std::int64_t outside_ = 0;
  std::int64_t around_ = 0;  // peak live bytes of other phases and the update, which no schedule changes
  std::vector<regions::ChainPlan> plans_;
  std::size_t of_chain_ = 0;  // number of plans of the chain, the first ones; the others are schedules
  std::int64_t labels_ = 0;
  bool exact_ = true, exact_seconds_ = true;
};

}  // namespace plimsoll
