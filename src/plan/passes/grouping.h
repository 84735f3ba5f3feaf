// The order of a window's micro-batches, as a rewrite of the graph: each segment of the micro-step (a pass through a block, or
// the nodes between two of them) takes several micro-batches before the next segment begins. Values on another tier then come in
// once for all of them. If the group is the whole window, gradients are final block by block. Every accumulator is added to in
// the order of the micro-batches, so bits stay as they are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "plan/units.h"

namespace plimsoll {

struct WindowOrder {
  std::int64_t accumulation = 1;  // micro-batches of a window
  std::int64_t group = 1;         // micro-batches that go together; divides `accumulation`

  std::int64_t rounds() const { return accumulation / group; }  // micro-steps of a window
};

// The most micro-batches of a group, and the most nodes of all of them: each micro-batch of a group has its own nodes.
inline constexpr std::int64_t kMostGroup = 256, kMostGroupedNodes = 1 << 16;

// True if only one segment adds to each accumulator, so that the additions keep their order.
bool may_group(const Graph& graph, const std::vector<Unit>& units);
// The reason why `group` micro-batches cannot go together; empty if they can.
std::string why_not_grouped(const Graph& graph, const std::vector<Unit>& units, std::int64_t group);

// Requires a graph that may be grouped; runs after recomputation and before fetching. With `narrow` a segment ends where the
// next matrix from another tier is needed. The last micro-batch of a group keeps the ids of the graph. The nodes and values
// of the others name them in `replica_of`. Replicas stream through the same slots.
Graph apply_grouping(Graph graph, const std::vector<Unit>& units, std::int64_t group, bool narrow);

// A fed or computed value of each micro-batch of a group, in their order: its replicas, and then the value itself.
std::vector<ValueId> replicas_of(const Graph& graph, ValueId value);

}  // namespace plimsoll
