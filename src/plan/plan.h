// A plan: the decisions, the rewritten graph, its steps, the owner, lifetime and offset of each buffer, and the resulting bytes
// and seconds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/lifetimes.h"
#include "plan/machine.h"
#include "plan/node_kernels.h"
#include "plan/passes/grouping.h"
#include "plan/passes/replay.h"
#include "plan/request.h"
#include "plan/residency.h"
#include "plan/tiers/lanes.h"
#include "plan/timeline.h"
#include "plan/unit_decisions.h"
#include "plan/units.h"

namespace plimsoll {

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
  double seconds = 0;              // of forward passes: one run, with the transfers for which its kernels wait
};

// The passes of a training that answer prompts from a cache.
struct AnswerDecision {
  std::int64_t slots = 0;  // tokens of the cache; 0: there are no such passes
  std::int64_t chunk = 0;  // tokens of a prompt in one run
  Bytes heap;              // of prompts, texts and vocabulary

  bool active() const { return slots > 0; }
};

// The last stage of ZeRO.
inline constexpr std::int64_t kLastStage = 3;

struct PlanDecisions {
  std::int64_t micro_batch = 1;
  std::int64_t accumulation = 1;
  std::int64_t group = 1;  // micro-batches that run through a block before the next block begins
  int loss_chunks = 1;
  Residency residency;
  std::vector<NodeReplay> replays;
  AnswerDecision answers;
  std::int64_t zero = 1;  // the stage of ZeRO of several ranks

  WindowOrder window() const { return {accumulation, group}; }
};

// A lower bound on the seconds of an update for every plan within a budget (plan/search/time_bound.h). Every kernel of the
// best micro-batch size runs once. Values that do not fit into memory are computed again, or cross the link to the next tier
// and back. After the last gradient, kernels wait for the parameters and state that do not fit.
struct TimeBound {
  double compute = 0, again = 0;  // seconds of kernels; the part of them that runs a second time
  double waits = 0;               // seconds in which kernels wait for transfers after the last gradient
  double transfers = 0;           // seconds of the busiest link
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
  PerTier<Bytes> stored;                               // the arenas of the tiers past the first
  std::vector<ReserveItem> host_reserve;               // of the host process of a device, outside its arena
  Bytes host;                                          // arena and reserve of the host process; 0 if kernels run on the host
  TransferEngine transfers = TransferEngine::threads;  // to and from the disk
  std::vector<Tier> tiers;                             // of the machine
  LaneSeconds lanes;                                   // of an update: busy seconds of its kernels and transfers
  double stall_seconds = 0;                            // of an update: seconds in which kernels wait for transfers
  Bytes load;                                          // peak live bytes of the layout: a lower bound on its height
  TimeBound bound_seconds;                             // for all plans of these kernels within the budget
  double micro_seconds = 0, update_seconds = 0;        // one micro-step (a whole group); one update
  int costs_measured = 0, costs_recorded = 0, costs_bound = 0;

  std::string graph_hash, machine_hash, plan_hash;
  Bytes floor, floor_bound;  // of the process, over all choices that the request leaves open
  Bytes knee, ceiling;       // of the process: for an update within 3 % of the fastest; for the fastest

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

}  // namespace plimsoll
