// The search: every candidate for one request. A budget selects the fastest one that fits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "plan/plan.h"
#include "plan/request.h"
#include "plan/search/candidate.h"

namespace plimsoll {

// One point of update time against memory: the plan for a budget of exactly these bytes and for no smaller one.
struct FrontierPoint {
  PlanDecisions decisions;
  std::vector<UnitDecision> units;
  Bytes process, arena, live;
  double update_seconds = 0;
  double units_per_second = 0;
};

// The cost of planning: combinations of micro-batch, group, paging and level; full simulations for them and for rungs that need
// one; labels of chains.
struct PlanningEffort {
  int combinations = 0, simulations = 0;
  std::int64_t labels = 0;
  double work = 0;  // the cost of all of this in simulated nodes, for limits that do not measure time
};

// The work that a processor of 2020 does in a second. Limits of work are multiples of it.
inline constexpr double kWorkPerSecond = 4e5;

class PlanSpace {
 public:
  // Throws config_error. E-BATCH-3: the micro-batch does not divide the effective batch, or the group its number of
  // micro-batches. E-PLAN-GROUP: that number of micro-batches cannot go together. E-DISK-SIZE: values have to rest on a
  // tier that is too small for them. E-HOST-SIZE: the process on a host exceeds its budget. E-PLAN-ACTIVATIONS: activations
  // have to rest on another tier, and none can.
  PlanSpace(GraphSource source, PlanRequest request, Machine machine, KernelCatalogue& catalogue);
  ~PlanSpace();
  PlanSpace(PlanSpace&&) noexcept;

  // The fastest plan within the budget, in outline: without its graph, lifetimes and kernels. Without a budget: the ceiling.
  std::variant<Plan, Infeasible> best(const Budget& budget);

  // The same plan without floors and bounds, which take longer to find; null if none fits.
  const Plan* fastest(const Budget& budget);

  Bytes floor();
  Bytes floor_bound();
  Bytes knee();
  Bytes ceiling();
  // At most `most` points from the floor to the ceiling, by rising bytes; each is faster than all before it. They lie
  // evenly along the ladder, in bytes and seconds together. The plans for the floor, the knee, the ceiling and each of
  // `budgets` from the floor on are always among them, past `most` if necessary.
  std::vector<FrontierPoint> frontier(int most, std::span<const Bytes> budgets = {});
  // The candidates that no other beats in seconds and bytes, in one of kMeasures, fastest first. Of candidates within 0.05 % of
  // the same seconds, the smallest.
  const std::vector<Candidate>& ladder() const;
  PlanningEffort effort() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plimsoll
