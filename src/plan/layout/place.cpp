#include "plan/layout/place.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "plan/layout/greedy.h"

namespace plimsoll::layout {
namespace {

constexpr std::int64_t kFirstProbe = 2'000;  // nodes of each probe in the first pass of minimize
constexpr std::int64_t kBoundShare = 16;     // times as many for the probe at the bound

Placement from_greedy(const Problem& problem, const Solution* known = nullptr) {
  Placement placement;
  placement.solution = known != nullptr ? *known : greedy(problem);
  placement.bound = lower_bound(problem);
  placement.optimal = placement.solution.height == placement.bound;
  return placement;
}

// Searches at `capacity` and takes over what it learns: a lower layout, or a higher bound.
Status probe(const Problem& problem, std::int64_t capacity, std::int64_t limit, Placement& placement) {
  SearchResult result = search(problem, capacity, limit);
  placement.nodes += result.nodes;
  if (result.status == Status::fits && result.solution.height < placement.solution.height) {
    placement.solution = std::move(result.solution);
  }
  if (result.status == Status::impossible) placement.bound = std::max(placement.bound, result.refuted + 1);
  placement.optimal = placement.solution.height == placement.bound;
  return result.status;
}

}  // namespace

Placement place(const Problem& problem, std::int64_t work_limit, const Solution* known) {
  Placement placement = from_greedy(problem, known);
  const std::int64_t limit = work_limit < 0 ? kPlaceNodes : work_limit;
  constexpr std::array<std::int64_t, 4> kSlackPer10000 = {0, 25, 50, 100};
  const std::int64_t bound = placement.bound;
  std::size_t left = kSlackPer10000.size();
  for (const std::int64_t slack : kSlackPer10000) {
    const std::int64_t capacity = bound + bound / 10000 * slack + bound % 10000 * slack / 10000;
    const std::int64_t share = (limit - placement.nodes) / static_cast<std::int64_t>(left--);
    if (share <= 0 || placement.optimal || capacity >= placement.solution.height) break;
    if (probe(problem, capacity, share, placement) == Status::fits) break;
  }
  return placement;
}

SearchResult solve(const Problem& problem, std::int64_t capacity, std::int64_t work_limit) {
  SearchResult result;
  result.solution = greedy(problem);
  if (result.solution.height <= capacity) {
    result.status = Status::fits;
    return result;
  }
  return search(problem, capacity, work_limit);
}

// Passes of bisection between the proven bound and the best height, the bound itself first, which is reached more often than not
// and ends the search: it gets more nodes. A capacity that a pass leaves undecided counts as too low for that pass; the next pass
// has four times the nodes for each.
Placement minimize(const Problem& problem, std::int64_t work_limit) {
  Placement placement = from_greedy(problem);
  const auto left = [&] { return work_limit < 0 ? std::numeric_limits<std::int64_t>::max() : work_limit - placement.nodes; };
  for (std::int64_t nodes = kFirstProbe; !placement.optimal && left() > 0; nodes = std::min(nodes * 4, std::int64_t{1} << 60)) {
    const std::int64_t nodes_before = placement.nodes;
    const std::int64_t gap_before = placement.solution.height - placement.bound;
    std::int64_t too_low = placement.bound - 1;
    std::int64_t capacity = placement.bound;
    while (!placement.optimal && placement.solution.height - too_low > 1 && left() > 0) {
      const std::int64_t share = capacity == placement.bound ? nodes * kBoundShare : nodes;
      if (probe(problem, capacity, std::min(share, left()), placement) != Status::fits) too_low = capacity;
      too_low = std::max(too_low, placement.bound - 1);
      capacity = too_low + std::max<std::int64_t>((placement.solution.height - too_low) / 2, 1);
    }
    // A problem too large to search spends nothing and learns nothing.
    if (placement.nodes == nodes_before && placement.solution.height - placement.bound == gap_before) break;
  }
  return placement;
}

}  // namespace plimsoll::layout
