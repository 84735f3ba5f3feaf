#include "plan/layout/place.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "plan/layout/bottom.h"
#include "plan/layout/greedy.h"

namespace plimsoll::layout {
namespace {

constexpr std::int64_t kCoarsest = 8, kFinest = 1024;  // crumbs need at most 1/8 to 1/1024 of the bound
constexpr std::int64_t kRefineNodes = 8;               // nodes per buffer of a search with one share of crumbs
constexpr std::int64_t kPlaceVisits = 30'000'000;      // visits of `place`
constexpr int kFillRounds = 6;                         // rounds of first fit that place the crumbs
constexpr std::int64_t kFirstProbe = 2'000;            // least nodes of each probe in the first pass of `minimize`
constexpr std::int64_t kBoundShare = 2;                // factor on the nodes of the probe at the bound
constexpr std::int64_t kProbesDeep = 16;               // a pass bisects the possible gain down to this part of it
constexpr double kPatience = 1e11;                     // visits after which `minimize` accepts any gap up to the bound

Placement from_greedy(const Problem& problem, std::int64_t enough = 0) {
  return {.solution = greedy(problem, enough), .bound = lower_bound(problem), .work = {}};
}

void add(const Work& spent, Work& work) {
  work.nodes += spent.nodes;
  work.visits += spent.visits;
}

void take(Solution solution, Placement& placement) {
  if (solution.height < placement.solution.height) placement.solution = std::move(solution);
}

// Searches at `capacity` and keeps the result: a lower layout or a higher bound.
Status probe(const Problem& problem, std::int64_t capacity, const Limits& limits, Placement& placement) {
  SearchResult result = search(problem, capacity, limits);
  add(result.work, placement.work);
  if (result.status == Status::impossible) placement.bound = std::max(placement.bound, result.refuted + 1);
  if (result.status == Status::fits) take(std::move(result.solution), placement);
  return result.status;
}

// Probes the bound and up to 1 % above it; each probe gets an equal part of the limits that are left.
void search_near_bound(const Problem& problem, const Limits& limits, Placement& placement) {
  constexpr std::array<std::int64_t, 4> kSlackPer10000 = {0, 25, 50, 100};
  const std::int64_t bound = placement.bound;
  auto parts = static_cast<std::int64_t>(kSlackPer10000.size());
  for (const std::int64_t slack : kSlackPer10000) {
    const std::int64_t capacity = bound + bound / 10000 * slack + bound % 10000 * slack / 10000;
    const Limits left = limits.after(placement.work);
    if (limits.reached(placement.work) || placement.optimal() || capacity >= placement.solution.height) break;
    if (probe(problem, capacity, {left.nodes / parts, left.visits / parts}, placement) == Status::fits) break;
    --parts;
  }
}

// The largest set of smallest buffers whose sum stays within `most` bytes at each moment.
std::vector<std::size_t> crumbs_of(const Problem& problem, std::int64_t most) {
  std::vector<std::size_t> small;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    if (problem.buffers[i].live() && !problem.buffers[i].pinned()) small.push_back(i);
  }
  std::ranges::stable_sort(small, {}, [&](std::size_t i) { return problem.buffers[i].size; });
  std::size_t few = 0, many = small.size() + 1;  // the first `few` fit as crumbs, the first `many` do not
  while (many - few > 1) {
    const std::size_t some = (few + many) / 2;
    Problem part{.buffers = {}, .alignment = problem.alignment};
    for (std::size_t i = 0; i < some; ++i) part.buffers.push_back(problem.buffers[small[i]]);
    (lower_bound(part) <= most ? few : many) = some;
  }
  small.resize(few);
  return small;
}

Problem without(const std::vector<std::size_t>& crumbs, Problem problem) {
  for (const std::size_t i : crumbs) problem.buffers[i] = {};
  return problem;
}

Problem pinned(const std::vector<std::int64_t>& offsets, const Problem& rest, Problem problem) {
  for (std::size_t i = 0; i < rest.buffers.size(); ++i) {
    if (rest.buffers[i].live()) problem.buffers[i].fixed_offset = offsets[i];
  }
  return problem;
}

// Searches for the other buffers alone. The crumbs then fill the gaps that are left, or lie above them.
void place_around(const std::vector<std::size_t>& crumbs, const Problem& problem, const Limits& limits, Placement& placement) {
  const Problem rest = without(crumbs, problem);
  Placement placed = from_greedy(rest);
  search_near_bound(rest, limits, placed);
  add(placed.work, placement.work);
  placement.bound = std::max(placement.bound, placed.bound);
  take(first_fit(pinned(placed.solution.offsets, rest, problem), kFillRounds, placement.bound), placement);
}

// First fit of all buffers, or of the large ones before the crumbs. There is no search, so it takes a short time.
Placement from_first_fit(const Problem& problem, std::int64_t enough) {
  constexpr std::array<std::int64_t, 2> kShares{kCoarsest, 8 * kCoarsest};
  Placement placement{.solution = first_fit(problem, 1, enough), .bound = lower_bound(problem), .work = {}};
  for (const std::int64_t share : kShares) {
    if (placement.solution.height <= std::max(enough, placement.bound)) break;
    const Problem rest = without(crumbs_of(problem, placement.bound / share), problem);
    const Solution large = greedy(rest, enough);
    if (large.height > enough) continue;
    take(first_fit(pinned(large.offsets, rest, problem), kFillRounds, enough), placement);
  }
  return placement;
}

Placement with_bottom(const Problem& problem, const Bottom& bottom, Placement above) {
  above.solution = with_bottom(problem, bottom, above.solution);
  above.bound += bottom.height;
  return above;
}

// Most buffers of a training graph weigh next to nothing, but each costs the search as much as a large one. The first round thus
// searches for a few large ones, and later rounds for more, until `done` holds.
template <class Done>
void refine(const Problem& problem, const Limits& limits, Placement& placement, Done&& done) {
  const std::int64_t step = kRefineNodes * static_cast<std::int64_t>(problem.buffers.size());
  std::optional<std::size_t> before;
  for (std::int64_t share = kCoarsest; share <= kFinest && !done(placement); share *= 4) {
    const std::vector<std::size_t> crumbs = crumbs_of(problem, placement.bound / share);
    const Limits left = limits.after(placement.work);
    if (limits.reached(placement.work)) break;
    if (before == crumbs.size()) continue;
    before = crumbs.size();
    place_around(crumbs, problem, {std::min(step, left.nodes), left.visits}, placement);
  }
}

}  // namespace

Placement place(const Problem& problem, std::int64_t enough) {
  const Bottom bottom = find_bottom(problem);
  const Problem others = above(problem, bottom);
  enough -= bottom.height;
  const auto done = [&](const Placement& p) { return p.optimal() || p.solution.height <= enough; };
  Placement placement = from_first_fit(others, enough);
  if (!done(placement)) take(greedy(others, enough), placement);
  refine(others, {.visits = kPlaceVisits}, placement, done);
  return with_bottom(problem, bottom, std::move(placement));
}

SearchResult solve(const Problem& problem, std::int64_t capacity, std::int64_t work_limit) {
  const Limits limits{.nodes = work_limit < 0 ? kNoLimit : work_limit};
  const Bottom bottom = find_bottom(problem);
  const Problem others = above(problem, bottom);
  capacity -= bottom.height;
  Placement placement = from_greedy(others, capacity);
  if (capacity >= placement.bound) {
    refine(others, limits, placement, [&](const Placement& p) { return p.solution.height <= capacity; });
  }
  SearchResult result{.status = Status::fits};
  if (placement.solution.height <= capacity) {
    result.solution = std::move(placement.solution);
  } else {
    result = search(others, capacity, limits.after(placement.work));
  }
  add(placement.work, result.work);
  if (result.status == Status::fits) result.solution = with_bottom(problem, bottom, result.solution);
  if (result.status == Status::impossible) result.refuted += bottom.height;
  return result;
}

// Passes of bisection between the proven bound and the best height. Each begins at the bound, with more nodes, since that probe
// succeeds most often and ends the search. An undecided capacity counts as too low until the next pass, which has four times the
// nodes.
Placement minimize(const Problem& problem, std::int64_t work_limit) {
  const Bottom bottom = find_bottom(problem);
  const Problem others = above(problem, bottom);
  const Limits limits{.nodes = work_limit < 0 ? kNoLimit : work_limit};
  // Without a work limit the accepted gap grows with the search.
  const auto content = [&](const Placement& p) {
    const auto gap = static_cast<double>(p.solution.height - p.bound), bound = static_cast<double>(p.bound);
    return work_limit < 0 && gap * kPatience <= bound * static_cast<double>(p.work.visits);
  };
  const auto done = [&](const Placement& p) { return p.optimal() || limits.reached(p.work) || content(p); };
  Placement placement = from_greedy(others);
  refine(others, limits, placement, done);
  for (std::int64_t nodes = std::max<std::int64_t>(kFirstProbe, std::ssize(others.buffers)); !done(placement);
       nodes = std::min(nodes * 4, kNoLimit / 4)) {
    const Placement before = placement;
    std::int64_t too_low = placement.bound - 1;
    std::int64_t capacity = placement.bound;
    const std::int64_t step = std::max<std::int64_t>((placement.solution.height - too_low) / kProbesDeep, 1);
    while (!done(placement) && placement.solution.height - too_low > step) {
      Limits left = limits.after(placement.work);
      left.nodes = std::min(left.nodes, capacity == placement.bound ? nodes * kBoundShare : nodes);
      if (probe(others, capacity, left, placement) != Status::fits) too_low = capacity;
      too_low = std::max(too_low, placement.bound - 1);
      capacity = too_low + std::max<std::int64_t>((placement.solution.height - too_low) / 2, 1);
    }
    // A problem too large to search uses no nodes and yields nothing.
    const bool learnt = placement.bound > before.bound || placement.solution.height < before.solution.height;
    if (placement.work.nodes == before.work.nodes && !learnt) break;
  }
  return with_bottom(problem, bottom, std::move(placement));
}

}  // namespace plimsoll::layout
