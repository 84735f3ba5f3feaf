#include "plan/region_plans.h"

#include <algorithm>

#include "base/error.h"
#include "plan/step_roles.h"

namespace plimsoll {
namespace {

constexpr std::size_t kMostLabels = 2048;

// What no choice changes: the phases around, and the steps of the update.
std::int64_t peak_around(const Simulation& keep, const LiveProfile& steady) {
  std::int64_t peak = peak_of_other_phases(keep);
  for (int step = keep.timeline.update.begin; step < keep.timeline.update.end; ++step)
    peak = std::max(peak, steady.bytes[static_cast<std::size_t>(step - keep.timeline.micro.begin)].n);
  return peak;
}

}  // namespace

RegionPlans::RegionPlans(const Simulation& keep, const std::vector<LossChunks>& chunks, RecomputePolicy policy) {
  const std::int64_t least_scratch = std::ranges::min_element(chunks, {}, &LossChunks::scratch)->scratch;
  replays::GraphProblem graph = replays::problem_of(keep, least_scratch);
  const regions::Regions regions = regions::find_regions(graph.problem);
  const LiveProfile steady = live_profile(keep.lifetimes, keep.timeline, Phase::steady);
  const std::int64_t most_scratch = std::ranges::max_element(chunks, {}, &LossChunks::scratch)->scratch;
  std::vector<std::int64_t> live;
  std::int64_t outside = peak_around(keep, steady), between = 0, loss = 0;
  for (int op = 0; op < static_cast<int>(graph.problem.ops.size()); ++op) {
    const int step = keep.timeline.micro.begin + op, region = regions.of[static_cast<std::size_t>(op)];
    live.push_back(steady.bytes[static_cast<std::size_t>(op)].n);
    if (is_chunked(keep, step)) {
      live.back() = live_without_scratch(keep, steady, step);
      if (region == regions::kBetween) {
        loss = std::max(loss, live.back());
        continue;
      }
      live.back() += most_scratch;
      exact_ = false;
    }
    if (region == regions::kBetween) between = std::max(between, live.back());
    if (region == regions::kOutside) outside = std::max(outside, live.back());
  }
  edges_ = regions::find_edges(graph.problem, regions, live,
                               {.keeps = policy != RecomputePolicy::all, .some = policy != RecomputePolicy::none});
  std::vector<regions::End> ends;
  for (const LossChunks& each : chunks) ends.push_back({std::max(between, loss + each.scratch), each.seconds});
  plans_ = regions::solve_chain(edges_, ends, outside, kMostLabels);
  nodes_ = std::move(graph.nodes);
  for (int op = 0; op < static_cast<int>(graph.problem.ops.size()); ++op) {
    const int like = graph.problem.ops[static_cast<std::size_t>(op)].like;
    first_.push_back(like < 0 || like == op ? 1 : 0);
  }
}

std::vector<NodeReplay> RegionPlans::replays(const regions::ChainPlan& plan) const {
  std::vector<NodeReplay> replays;
  for (const regions::Edge* edge : plan.edges) {
    for (const auto& [op, before] : edge->replays) {
      if (first_[static_cast<std::size_t>(op)] == 0) continue;
      const NodeId behind = nodes_[static_cast<std::size_t>(before)];
      ensure(behind.valid(), "regions", "what runs again stands before no node");
      replays.push_back({nodes_[static_cast<std::size_t>(op)], behind});
    }
  }
  return replays;
}

}  // namespace plimsoll
