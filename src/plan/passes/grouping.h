// The order of a window's micro-batches, as a rewrite of the graph: each segment of the micro-step (a pass through a block, or
// what lies between two of them) takes several micro-batches before the next segment begins. What rests on another tier then
// comes once for all of them, and where they are all of a window's, gradients are final block by block. Every accumulator is
// added to in the order of the micro-batches, so bits stay as they are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "plan/units.h"

namespace plimsoll {

struct WindowOrder {
  std::int64_t accumulation = 1;  // micro-batches of a window
  std::int64_t group = 1;         // of which so many go together; divides them

  std::int64_t rounds() const { return accumulation / group; }  // micro-steps that the program of a window has
};

// Each micro-batch of a group has nodes of its own, of which a plan has no more than this.
inline constexpr std::int64_t kMostGroup = 256, kMostGroupedNodes = 1 << 16;

// Whether each accumulator is added to in one segment only, so that its additions keep their order.
bool may_group(const Graph& graph, const std::vector<Unit>& units);
// Why so many micro-batches cannot go together; empty where they can.
std::string why_not_grouped(const Graph& graph, const std::vector<Unit>& units, std::int64_t group);

// Of a graph that may be grouped, after recomputation and before fetching. With `narrow` passes a segment ends where the next
// matrix that comes from another tier is needed. The last micro-batch of a group keeps the ids of the
// graph; `replica_of` of the others' nodes and values names those. What streams, streams through the same room.
Graph apply_grouping(Graph graph, const std::vector<Unit>& units, std::int64_t group, bool narrow);

// A fed or computed value of each micro-batch of a group, in their order: those that name it, and then itself.
std::vector<ValueId> replicas_of(const Graph& graph, ValueId value);

}  // namespace plimsoll
