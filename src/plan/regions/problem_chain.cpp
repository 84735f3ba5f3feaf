#include "plan/regions/problem_chain.h"

#include <algorithm>

#include "base/error.h"

namespace plimsoll::regions {

ProblemChain::ProblemChain(const replays::Problem& problem, const EdgeLimits& limits)
    : problem_(problem), regions_(find_regions(problem)) {
  std::vector<std::int64_t> live;
  ensure(replays::evaluate(problem, {}, &live).has_value(), "regions", "an order of ops that cannot run");
  for (std::size_t i = 0; i < live.size(); ++i) {
    if (regions_.of[i] == kOutside) outside_ = std::max(outside_, live[i]);
    if (regions_.of[i] == kBetween) between_ = std::max(between_, live[i]);
  }
  edges_ = find_edges(problem, regions_, live, limits);
}

std::vector<ChainPlan> ProblemChain::solve(std::size_t most, std::int64_t* labels) const {
  return solve_chain(edges_, {{between_, 0}}, outside_, most, labels);
}

std::optional<replays::Schedule> ProblemChain::fastest_within(std::int64_t bytes) const {
  constexpr std::size_t kMostLabels = 4096;
  for (const ChainPlan& plan : solve(kMostLabels)) {
    if (plan.bytes > bytes) continue;
    std::vector<replays::Replay> replays = replays_of(plan.edges);
    const std::optional<replays::Outcome> outcome = replays::evaluate(problem_, replays);
    if (outcome && outcome->peak <= plan.bytes) return replays::Schedule{std::move(replays), outcome->seconds};
  }
  return {};
}

}  // namespace plimsoll::regions
