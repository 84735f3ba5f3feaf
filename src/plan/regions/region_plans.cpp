#include "plan/regions/region_plans.h"

#include <algorithm>

#include "base/error.h"
#include "plan/step_roles.h"

namespace plimsoll {
namespace {

// With links each plan's waits are found one by one.
constexpr std::size_t kMostLabels = 2048, kMostWithLinks = 160;

// What no choice changes: the phases around, and the steps of the update.
std::int64_t peak_around(const Simulation& keep, const LiveProfile& steady) {
  std::int64_t peak = peak_of_other_phases(keep);
  for (int step = keep.timeline.update.begin; step < keep.timeline.update.end; ++step)
    peak = std::max(peak, steady.bytes[static_cast<std::size_t>(step - keep.timeline.micro.begin)].n);
  return peak;
}

std::vector<int> units_of(const replays::Problem& problem, const regions::Regions& regions) {
  std::vector<int> units;
  for (const std::vector<int>& ops : regions.ops) {
    int unit = -1;
    for (const int op : ops) {
      const replays::Op& what = problem.ops[static_cast<std::size_t>(op)];
      if (what.pass == replays::Pass::forward) unit = what.unit;
    }
    units.push_back(unit);
  }
  return units;
}

}  // namespace

RegionPlans::RegionPlans(const Simulation& keep, const std::vector<GraphBlock>& units, const Paging& paging,
                         const Machine& machine, const std::vector<LossChunks>& chunks, RecomputePolicy policy,
                         regions::KnownWays& known) {
  const std::int64_t least_scratch = std::ranges::min_element(chunks, {}, &LossChunks::scratch)->scratch;
  const std::int64_t most_scratch = std::ranges::max_element(chunks, {}, &LossChunks::scratch)->scratch;
  graph_ = std::make_unique<replays::GraphProblem>(replays::problem_of(keep, units, paging.narrow, least_scratch));
  const replays::Problem& problem = graph_->problem;
  const regions::Regions regions = regions::find_regions(problem);
  const LiveProfile steady = live_profile(keep.lifetimes, keep.timeline, Phase::steady);
  std::vector<std::int64_t> live;
  std::int64_t between = 0, loss = 0;
  outside_ = peak_around(keep, steady);
  for (int op = 0; op < static_cast<int>(problem.ops.size()); ++op) {
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
    if (region == regions::kOutside) outside_ = std::max(outside_, live.back());
  }
  const bool grouped = std::ranges::any_of(problem.ops, [](const replays::Op& op) { return op.like >= 0; });
  // What a unit fetches at once keeps segments within it.
  const int longest = paging.parameters && !paging.narrow ? 2 : grouped ? 2 : paging.narrow ? 4 : 8;
  edges_ = regions::find_edges(problem, regions, live,
                               {.keeps = policy != RecomputePolicy::all,
                                .some = policy != RecomputePolicy::none,
                                .longest = longest,
                                .local = paging.active() && !paging.narrow ? 0 : 2},
                               &known);
  for (const LossChunks& each : chunks) ends_.push_back({std::max(between, loss + each.scratch), each.seconds});
  unit_of_ = units_of(problem, regions);
  between_ = std::max(between, loss);
  inputs_ = bytes_of_inputs(regions);
  regions::Windows windows;
  if (paging.active()) {
    exact_seconds_ = !paging.narrow && !(grouped && paging.activations > 0);
    lanes_.emplace(keep, *graph_, paging, machine);
    windows = {unit_of_, lanes_->slack(units.size())};
  }
  solve(windows);
  // What a window hides is foreseen for each by itself: plans that count on nothing of it are looked at as well.
  if (lanes_ && !grouped) solve({});
}

// What the region before makes for the first region of a unit.
std::int64_t RegionPlans::bytes_of_inputs(const regions::Regions& regions) const {
  std::int64_t bytes = 0;
  std::vector<int> region_of_maker(graph_->problem.items.size(), regions::kOutside);
  for (int op = 0; op < regions.turn; ++op) {
    const int region = regions.of[static_cast<std::size_t>(op)];
    for (const int item : graph_->problem.ops[static_cast<std::size_t>(op)].writes)
      region_of_maker[static_cast<std::size_t>(item)] = region;
    const bool first = region > 0 && unit_of_[static_cast<std::size_t>(region)] >= 0 &&
                       unit_of_[static_cast<std::size_t>(region)] != unit_of_[static_cast<std::size_t>(region - 1)];
    if (!first) continue;
    for (const int item : graph_->problem.ops[static_cast<std::size_t>(op)].reads) {
      int& made = region_of_maker[static_cast<std::size_t>(item)];
      if (made != region - 1) continue;
      bytes += graph_->problem.items[static_cast<std::size_t>(item)];
      made = regions::kOutside;  // counted
    }
  }
  return bytes;
}

double RegionPlans::seconds_of(const std::vector<const regions::Edge*>& path) const {
  double seconds = lanes_ ? lanes_->stall(replays_of(path)) : 0;
  for (const regions::Edge* edge : path) seconds += edge->seconds;
  return seconds;
}

void RegionPlans::solve(const regions::Windows& windows) {
  const std::size_t most = lanes_ ? kMostWithLinks : kMostLabels;
  for (regions::ChainPlan& chain : regions::solve_chain(edges_, ends_, outside_, most, windows, &labels_)) {
    double seconds = chain.seconds;
    if (lanes_) seconds = ends_[static_cast<std::size_t>(chain.end)].seconds + seconds_of(chain.edges);
    plans_.push_back({chain.bytes, seconds, chain.end, std::move(chain.edges)});
  }
}

// Where each region keeps as little as it can.
bool RegionPlans::inputs_count() const {
  constexpr int kLeastPart = 16;
  std::int64_t held = between_;
  for (std::size_t region = 0; region < edges_.size(); ++region) {
    std::int64_t least = 0;
    for (const regions::Edge& edge : edges_[region]) {
      if (edge.end == static_cast<int>(region) + 1) least = std::min(least, edge.saved);
    }
    held += least;
  }
  return inputs_ * kLeastPart >= held;
}

// What only repeats another node for another micro-batch follows from that one.
std::vector<NodeReplay> RegionPlans::replays(const Plan& plan) const {
  std::vector<NodeReplay> nodes;
  for (const auto& [op, before] : replays_of(plan.edges)) {
    const int like = graph_->problem.ops[static_cast<std::size_t>(op)].like;
    if (like >= 0 && like != op) continue;
    const NodeId behind = graph_->nodes[static_cast<std::size_t>(before)];
    ensure(behind.valid(), "regions", "what runs again stands before no node");
    nodes.push_back({graph_->nodes[static_cast<std::size_t>(op)], behind});
  }
  return nodes;
}

}  // namespace plimsoll
