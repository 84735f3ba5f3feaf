// A plan as a value: the rewritten graph, its steps, the owner, lifetime and offset of each buffer, and the resulting bytes and
// seconds. `PlanSpace` holds every candidate for one request; a budget selects the fastest one that fits.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "graph/kernel_catalogue.h"
#include "plan/lifetimes.h"
#include "plan/machine.h"
#include "plan/passes/grouping.h"
#include "plan/passes/paging.h"
#include "plan/passes/replay.h"
#include "plan/residency.h"
#include "plan/tiers/lanes.h"
#include "plan/timeline.h"
#include "plan/unit_decisions.h"
#include "plan/units.h"

namespace plimsoll {

struct Budget {
  std::optional<Bytes> memory;  // of the process
  std::optional<Bytes> host_memory;
  std::optional<Bytes> disk;
};

enum class RecomputePolicy : std::uint8_t { automatic, none, all };

enum class RestPolicy : std::uint8_t { automatic, memory, disk };

// Windows with different numbers of rows. A micro-batch has a part of the rows, and the number of micro-steps varies per window.
struct RaggedWindows {
  std::int64_t rows = 1, most_rows = 1;  // of a window: expected, and at most
  std::int64_t units = 1;                // of a window, expected

  friend bool operator==(const RaggedWindows&, const RaggedWindows&) = default;
};

// The user's choices; the planner decides the rest.
struct PlanRequest {
  std::int64_t effective_batch = 1;  // samples; one row each, unless windows are ragged
  std::optional<RaggedWindows> ragged;
  std::int64_t most_rows = 0;               // rows of a micro-batch; 0: no bound
  std::optional<std::int64_t> micro_batch;  // rows; divides the effective batch unless windows are ragged
  std::optional<std::int64_t> group;        // micro-batches that go together; divides the micro-batches of a window
  RecomputePolicy recompute = RecomputePolicy::automatic;
  std::optional<int> loss_chunks;  // of the chunked loss, 1 to its number of tiles
  // Budgets of the tiers past the first, nearest first; empty: nothing leaves the first tier. A host's budget includes its
  // process; 0: nothing rests there.
  std::vector<Bytes> beyond;
  // The resting places. Parameters and gradients are those of the blocks and of tables, and leave memory only together with
  // optimizer state.
  RestPolicy optimizer_state = RestPolicy::automatic, parameters = RestPolicy::automatic, gradients = RestPolicy::automatic;
  RestPolicy activations = RestPolicy::automatic;  // the inputs of the first blocks, between the passes
  bool saves = true;                               // the run writes weights and checkpoints
  std::int64_t units_per_sample = 1;               // tokens, the unit of rates
  bool floor_only = false;                         // find only the smallest plans of the smallest micro-batch

  // The micro-batches of a window with `rows` rows each. Ragged windows count as at least two, so that no plan ends a window with
  // its first one.
  std::int64_t accumulation(std::int64_t rows) const {
    return ragged ? std::max<std::int64_t>(2, ceil_div(ragged->rows, rows)) : effective_batch / rows;
  }
  std::int64_t units_per_update() const { return ragged ? ragged->units : effective_batch * units_per_sample; }
};

// Builds the training graph of one micro-batch size. Value ids are the same for every size.
using GraphSource = std::function<Graph(std::int64_t micro_batch)>;

struct OwnerBytes {
  std::string owner;
  Bytes bytes;
  std::string line;  // model line of the largest buffer of that owner
};

struct PhasePlan {
  Phase phase = Phase::load;
  std::string name;
  Bytes arena;                     // end of the highest buffer that lives in it
  Bytes live;                      // the most that is live at one step
  std::vector<OwnerBytes> owners;  // at that step, largest first; they add up to `live`
};

// The kernel of one step, for adding to accumulators and for writing them (equal if it makes no difference).
struct StepKernel {
  KernelChoice add, write;

  const KernelChoice& of(bool window_start) const { return window_start ? write : add; }
  Bytes scratch() const { return std::max(add.scratch, write.scratch); }
};

struct PlanDecisions {
  std::int64_t micro_batch = 1;
  std::int64_t accumulation = 1;
  std::int64_t group = 1;  // micro-batches that a block takes before the next one does
  int loss_chunks = 1;
  Residency residency;
  std::vector<NodeReplay> replays;

  WindowOrder window() const { return {accumulation, group}; }
};

// A lower bound on the seconds of an update for every plan within a budget (plan/bounds/time_bound.h): every kernel of the best
// micro-batch size runs once, and values that do not fit into memory are computed again or cross the link to the next tier and
// back. After the last gradient kernels wait for parameters and state that memory has no room for.
struct TimeBound {
  double compute = 0, again = 0;  // again: the part that runs a second time
  double waits = 0;               // in addition to kernels, for transfers after the last gradient
  double transfers = 0;
  double seconds() const { return std::max(compute + waits, transfers); }
};

struct Plan {
  PlanDecisions decisions;
  std::vector<UnitDecision> units;  // the replays by unit
  std::int64_t effective_batch = 1;
  std::optional<RaggedWindows> ragged;
  std::int64_t units_per_update = 1;
  int threads = 1;

  Graph graph;
  Timeline timeline;
  Lifetimes lifetimes;
  std::vector<StepKernel> kernels;  // per step; empty names for steps without a kernel
  std::vector<Bytes> offsets;       // per buffer
  std::vector<PhasePlan> phases;    // of this run
  std::vector<ReserveItem> reserve;

  Bytes arena, live, process;
  std::array<Bytes, kMostTiers> stored;                // the arenas of the tiers past the first
  std::vector<ReserveItem> host_reserve;               // of the host process of a device, outside its arena
  Bytes host;                                          // arena and reserve of the host process; 0 if kernels run on the host
  TransferEngine transfers = TransferEngine::threads;  // to and from the disk
  std::vector<Tier> tiers;                             // of its machine
  LaneSeconds lanes;                                   // of an update: busy seconds of its kernels and transfers
  double stall_seconds = 0;                            // of an update: seconds in which kernels wait for transfers
  Bytes load;                                          // peak live bytes of the layout: a lower bound on its height
  TimeBound bound_seconds;                             // for all plans of these kernels within the budget
  double micro_seconds = 0, update_seconds = 0;        // one micro-step (a whole group); one update
  int costs_measured = 0, costs_recorded = 0, costs_bound = 0;

  std::string graph_hash, machine_hash, plan_hash;
  Bytes floor, floor_bound;  // of the process, over all choices that the request leaves open
  Bytes knee, ceiling;       // of the process: the update within 3 % of the fastest; everything kept

  // Frees the data that a lowered plan does not need: timeline, lifetimes, kernels, offsets. A run holds the rest.
  void forget_analysis() {
    timeline = {};
    lifetimes = {};
    kernels = {};
    offsets = {};
  }
};

struct Infeasible {
  Bytes budget, floor, floor_bound;
  std::string phase = "steady";
  std::vector<OwnerBytes> owners;  // of the floor plan at its peak, with the reserve
};

// One point of the ladder: exact live bytes and modelled seconds.
struct Candidate {
  std::size_t batch = 0;  // index of the micro-batch size, paging and group
  int loss_chunks = 1;
  std::size_t level = 0, chain = 0;  // index of a level of offloaded inputs, and of a chain plan there
  bool simulated = false;            // bytes and seconds are those of its plan
  Bytes live;
  Bytes outside;  // bytes outside the arena, for transfers only
  Bytes reserve;  // if simulated: reserve of the process in addition to held(), without the rounding of the arena
  double update_seconds = 0;

  Bytes held() const { return live + outside; }
};

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
  // Throws config_error: E-BATCH-3 if the micro-batch does not divide the effective batch, E-DISK-SIZE if the optimizer state has
  // to rest on a disk that is too small for it, E-PLAN-ACTIVATIONS if activations have to rest on another tier and none can.
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
  // At most `most` points from the floor to the ceiling, by growing bytes; each one is faster than all before it. They lie evenly
  // along the ladder, in bytes and seconds together. They always include the plans for the floor, the knee, the ceiling and each
  // of `budgets` from the floor on, past `most` if necessary.
  std::vector<FrontierPoint> frontier(int most, std::span<const Bytes> budgets = {});
  // All candidates that no other beats in both bytes (live and for transfers) and seconds, fastest first.
  const std::vector<Candidate>& ladder() const;
  PlanningEffort effort() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plimsoll
