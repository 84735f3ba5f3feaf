// A training graph with decisions applied, its steps, kernels and lifetimes, and its costs.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/node_kernels.h"
#include "plan/plan.h"
#include "plan/tiers/lanes.h"

namespace plimsoll {

// The graph that a plan runs.
Graph apply_decisions(const Graph& graph, const std::vector<Unit>& units, const std::vector<NodeReplay>& replays,
                      const Residency& residency, const WindowOrder& window);

// The same for a graph after apply_paging.
Graph apply_choices(Graph paged, const std::vector<Unit>& units, const std::vector<NodeReplay>& replays,
                    const Residency& residency, const WindowOrder& window);

// A graph with decisions applied, simulated.
struct Simulation {
  Graph graph;
  Timeline timeline;
  std::vector<StepKernel> kernels;
  Lifetimes lifetimes;
};

struct Costs {
  double micro = 0, update = 0;  // seconds of kernels in one micro-step, in the update section
  // Seconds in which kernels wait for transfers, and in which each lane is busy; micro-steps: the average over a window.
  double micro_stall = 0, update_stall = 0;
  LaneSeconds micro_lanes, update_lanes;
  int measured = 0, recorded = 0, bound = 0;
};

Simulation simulate(Graph graph, std::int64_t rounds, int loss_chunks, bool saves, NodeKernels& kernels);
Costs costs_of(const Simulation& simulation, const Residency& residency, const Machine& machine);

// Pieces of generated code: kernels that differ in implementation, attributes or types, each counted once. `loss`: includes those
// of the chunked loss, whose number depends on the chunks.
int count_primitives(const Simulation& simulation, int loss_chunks, int threads, bool loss = true);

// Peak bytes of loading while it encodes frozen matrices.
Bytes encoding_bytes(const Graph& graph);

}  // namespace plimsoll
