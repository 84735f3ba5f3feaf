// Transfers in that begin later than their pass would have them, as a rewrite of the order: what the layout found too much beside
// something that ends before they are needed. Lanes keep their order: what would have begun in between begins behind them.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace plimsoll {

struct LateFetch {
  NodeId fetch, after;  // a node that begins a transfer in, and a later one before that which waits for it
  friend bool operator==(const LateFetch&, const LateFetch&) = default;
};

bool is_possible(const Graph& graph, const LateFetch& late);

// One after the other; nothing where one is not possible. Ids keep their meaning.
std::optional<Graph> apply_late(Graph graph, const std::vector<LateFetch>& late);

}  // namespace plimsoll
