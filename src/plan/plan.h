// A plan as a value: the rewritten graph, its steps, what each buffer is, when it lives and where it lies, and the bytes and
// seconds that follow. `PlanSpace` holds every candidate for one request; a budget picks the fastest that fits.
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

// Windows whose numbers of rows differ: a micro-batch has some of their rows, and windows have as many micro-steps as that takes.
struct RaggedWindows {
  std::int64_t rows = 1, most_rows = 1;  // that are expected of a window, and that one has at the most
  std::int64_t units = 1;                // likewise expected

  friend bool operator==(const RaggedWindows&, const RaggedWindows&) = default;
};

// What the user leaves to the planner, and what not.
struct PlanRequest {
  std::int64_t effective_batch = 1;  // samples; a row each, unless windows are ragged
  std::optional<RaggedWindows> ragged;
  std::int64_t most_rows = 0;               // of a micro-batch; 0: no bound
  std::optional<std::int64_t> micro_batch;  // rows; divides the effective batch unless windows are ragged
  std::optional<std::int64_t> group;        // micro-batches that go together; divides how many there are in a window
  RecomputePolicy recompute = RecomputePolicy::automatic;
  std::optional<int> loss_chunks;  // of the chunked loss, 1 to its number of tiles
  // What each tier past the first has room for, nearest first; empty: nothing leaves that one. That of a host holds its process,
  // too; 0: nothing rests there.
  std::vector<Bytes> beyond;
  // Where they rest; parameters and gradients are those of the blocks and of tables, and leave memory only beside optimizer
  // state.
  RestPolicy optimizer_state = RestPolicy::automatic, parameters = RestPolicy::automatic, gradients = RestPolicy::automatic;
  RestPolicy activations = RestPolicy::automatic;  // what crosses into the first blocks, between the passes
  bool saves = true;                               // the run writes weights and checkpoints
  std::int64_t units_per_sample = 1;               // tokens: what rates count
  bool floor_only = false;                         // only the smallest plans of the smallest micro-batch are asked for

  // Micro-batches of a window with so many rows each. Ragged windows count as several, so that none is planned to end with its
  // first one.
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

// The kernel of one step, for adding into accumulators and for writing them (equal where it makes no difference).
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
  Paging paging;
  std::vector<NodeReplay> replays;

  WindowOrder window() const { return {accumulation, group}; }
};

// Seconds of an update that no plan within a budget can go below (plan/bounds/time_bound.h): every kernel of the best micro-batch
// size runs once, and what does not fit into memory is computed again or crosses the link to the next tier and back. Behind the
// last gradient kernels wait for parameters and state that memory has no room for.
struct TimeBound {
  double compute = 0, again = 0;  // of it, what runs a second time
  double waits = 0;               // beside kernels, for what passes behind the last gradient
  double transfers = 0;
  double seconds() const { return std::max(compute + waits, transfers); }
};

struct Plan {
  PlanDecisions decisions;
  std::vector<UnitDecision> units;  // what the replays come to
  std::int64_t effective_batch = 1;
  std::optional<RaggedWindows> ragged;
  std::int64_t units_per_update = 1;
  int threads = 1;

  Graph graph;
  Timeline timeline;
  Lifetimes lifetimes;
  std::vector<StepKernel> kernels;  // per step; empty names for steps without a kernel
  std::vector<Bytes> offsets;       // per buffer
  std::vector<PhasePlan> phases;    // those that the run has
  std::vector<ReserveItem> reserve;

  Bytes arena, live, process;
  std::array<Bytes, kMostTiers> stored;                // the arenas of the tiers past the first
  std::vector<ReserveItem> host_reserve;               // of the process behind a device, beside its arena
  Bytes host;                                          // that arena and that reserve; 0 where kernels run on the host
  TransferEngine transfers = TransferEngine::threads;  // to and from the disk
  std::array<std::string, kMostTiers> tiers{"ram", "disk"};
  LaneSeconds lanes;                             // of an update: what its kernels and transfers take on their lanes
  double stall_seconds = 0;                      // of an update: what transfers take longer than the kernels beside them
  Bytes load;                                    // the most that is live at one step of the layout: no height can be smaller
  TimeBound bound_seconds;                       // of every plan of these kernels within the budget
  double micro_seconds = 0, update_seconds = 0;  // one micro-step with all that go together; one whole update
  int costs_measured = 0, costs_recorded = 0, costs_bound = 0;

  std::string graph_hash, machine_hash, plan_hash;
  Bytes floor, floor_bound;  // of the process, over everything that the request leaves open
  Bytes knee, ceiling;       // of the process: within 3 % of the fastest; keeping everything

  // Gives back what nothing needs once the plan is lowered: lifetimes, kernels, offsets. A run holds the rest.
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
  std::size_t batch = 0;  // which micro-batch size, paging and group
  int loss_chunks = 1;
  std::size_t level = 0, chain = 0;  // one of the batch's chain plans, at a level of what rests elsewhere
  bool simulated = false;            // by itself: bytes and seconds are those of its plan
  Bytes live;
  Bytes outside;  // of the arena, for transfers alone
  Bytes reserve;  // where it is simulated: of the process beside what is held, without the rounding of the arena
  double update_seconds = 0;

  Bytes held() const { return live + outside; }
};

// One point of update time against memory: what a budget of exactly these bytes gets, and no smaller one.
struct FrontierPoint {
  PlanDecisions decisions;
  std::vector<UnitDecision> units;
  Bytes process, arena, live;
  double update_seconds = 0;
  double units_per_second = 0;
};

// What planning took: combinations of micro-batch, group, paging and level, full simulations for them and for rungs that only a
// simulation tells, and labels of chains.
struct PlanningEffort {
  int combinations = 0, simulations = 0;
  std::int64_t labels = 0;
  double work = 0;  // what all of this takes, for limits that count no time: nodes that were simulated
};

// The work that a processor of 2020 does in a second. Limits of work are multiples of it.
inline constexpr double kWorkPerSecond = 4e5;

class PlanSpace {
 public:
  // Throws config_error: E-BATCH-3 where the micro-batch does not divide the effective batch, E-DISK-SIZE where the optimizer
  // state has to rest on a disk that is too small for it, E-PLAN-ACTIVATIONS where activations have to and none can.
  PlanSpace(GraphSource source, PlanRequest request, Machine machine, KernelCatalogue& catalogue);
  ~PlanSpace();
  PlanSpace(PlanSpace&&) noexcept;

  // The fastest plan within the budget, in outline: without its graph, lifetimes and kernels. Without a budget: the ceiling.
  std::variant<Plan, Infeasible> best(const Budget& budget);

  // The same plan without floors and bounds, which take longer to find; null where none fits.
  const Plan* fastest(const Budget& budget);

  Bytes floor();
  Bytes floor_bound();
  Bytes knee();
  Bytes ceiling();
  // At most `most` points from the floor to the ceiling, by growing bytes; each one is faster than all before it. They lie evenly
  // along the ladder, in bytes and seconds together. What the floor, the knee, the ceiling and each of `budgets` that is no
  // smaller than the floor get is always among them, past `most` if need be.
  std::vector<FrontierPoint> frontier(int most, std::span<const Bytes> budgets = {});
  // All candidates that nothing else beats in both bytes (live and for transfers) and seconds, fastest first.
  const std::vector<Candidate>& ladder() const;
  PlanningEffort effort() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plimsoll
