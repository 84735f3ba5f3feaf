// A training graph with decisions applied, its steps, kernels and lifetimes.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/lifetimes.h"
#include "plan/node_kernels.h"
#include "plan/passes/grouping.h"
#include "plan/passes/replay.h"
#include "plan/residency.h"
#include "plan/units.h"

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

Simulation simulate(Graph graph, std::int64_t rounds, int loss_chunks, bool saves, NodeKernels& kernels);

// The number of pieces of generated code: kernels of equal implementation, attributes and types count once. `loss`: true to
// count the chunked loss, too; its number depends on the chunks.
int count_primitives(const Simulation& simulation, int loss_chunks, int threads, bool loss = true);

// Peak bytes of loading while it encodes frozen matrices.
Bytes encoding_bytes(const Graph& graph);

}  // namespace plimsoll
