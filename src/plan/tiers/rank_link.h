// The exchanges of ranks: their bytes, and their time: a lane beside those of tiers. Kernels wait for an exchange; its own
// additions run while the next numbers arrive.
#pragma once

#include "graph/graph.h"
#include "plan/machine.h"
#include "plan/timeline.h"

namespace plimsoll {

// Bytes that a rank sends in an update; its window has `rounds` rounds.
struct RankTraffic {
  Bytes gradients, parameters;
  Bytes control;  // sums of tiles, of statistics
  Bytes all() const { return gradients + parameters + control; }
};
RankTraffic traffic_of(const Graph& graph, std::int64_t rounds);

// Seconds of the exchange of a node; 0 for any other node.
double exchange_seconds(const Graph& graph, const Node& node, const RankLink& link);
// Seconds of all exchanges of an update.
double exchange_seconds(const Graph& graph, std::int64_t rounds, const RankLink& link);

}  // namespace plimsoll
