#include "plan/regions/region_plans.h"

#include <algorithm>

#include "base/error.h"
#include "plan/step_roles.h"

namespace plimsoll {
namespace {

// With links each plan's waits are found one by one.
constexpr std::size_t kMostLabels = 2048, kMostWithLinks = 512;

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
                         regions::KnownWays& known)
    : chunks_(chunks) {
  const std::int64_t least_scratch = std::ranges::min_element(chunks, {}, &LossChunks::scratch)->scratch;
  const std::int64_t most_scratch = std::ranges::max_element(chunks, {}, &LossChunks::scratch)->scratch;
  graph_ = std::make_unique<replays::GraphProblem>(replays::problem_of(keep, units, paging.narrow, least_scratch));
  const replays::Problem& problem = graph_->problem;
  const regions::Regions regions = regions::find_regions(problem);
  const LiveProfile steady = live_profile(keep.lifetimes, keep.timeline, Phase::steady);
  std::int64_t between = 0, loss = 0;
  outside_ = around_ = peak_around(keep, steady);
  for (int op = 0; op < static_cast<int>(problem.ops.size()); ++op) {
    const int step = keep.timeline.micro.begin + op, region = regions.of[static_cast<std::size_t>(op)];
    live_.push_back(steady.bytes[static_cast<std::size_t>(op)].n);
    if (is_chunked(keep, step)) {
      live_.back() = live_without_scratch(keep, steady, step);
      if (region == regions::kBetween) {
        loss = std::max(loss, live_.back());
        losses_.push_back(op);
        continue;
      }
      live_.back() += most_scratch;
      exact_ = false;
    }
    if (region == regions::kBetween) between = std::max(between, live_.back());
    if (region == regions::kOutside) outside_ = std::max(outside_, live_.back());
  }
  const bool grouped = std::ranges::any_of(problem.ops, [](const replays::Op& op) { return op.like >= 0; });
  // What a unit fetches at once keeps segments within it.
  const int longest = paging.parameters && !paging.narrow ? 2 : grouped ? 2 : paging.narrow ? 4 : 8;
  edges_ = regions::find_edges(problem, regions, live_,
                               {.keeps = policy != RecomputePolicy::all,
                                .some = policy != RecomputePolicy::none,
                                .longest = longest,
                                .local = paging.active() && !paging.narrow ? 0 : 2},
                               &known);
  for (const LossChunks& each : chunks) ends_.push_back({std::max(between, loss + each.scratch), each.seconds});
  unit_of_ = units_of(problem, regions);
  between_ = std::max(between, loss);
  inputs_ = bytes_of_inputs(regions);
  if (paging.active()) {
    exact_seconds_ = !paging.narrow && !(grouped && paging.activations > 0);
    lanes_.emplace(keep, *graph_, paging, machine);
  }
  solve();
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

void RegionPlans::solve() {
  const std::size_t most = lanes_ ? kMostWithLinks : kMostLabels;
  for (regions::ChainPlan& chain : regions::solve_chain(edges_, ends_, outside_, most, &labels_)) {
    double seconds = chain.seconds;
    if (lanes_) seconds = ends_[static_cast<std::size_t>(chain.end)].seconds + seconds_of(chain.edges);
    plans_.push_back({chain.bytes, seconds, chain.end, std::move(chain.edges)});
  }
}

// Each is one edge over all regions. What lives beside the items of the problem does so whatever runs again.
void RegionPlans::add_schedules() {
  const replays::Problem& problem = graph_->problem;
  std::vector<std::int64_t> kept, live;
  const double once = replays::evaluate(problem, {}, &kept)->seconds;
  for (std::vector<replays::Replay>& replays : replays::schedules(problem)) {
    const double seconds = replays::evaluate(problem, replays, &live)->seconds - once;
    std::int64_t loss = 0, peak = 0;
    for (std::size_t op = 0; op < live.size(); ++op) {
      std::int64_t& most = std::ranges::binary_search(losses_, static_cast<int>(op)) ? loss : peak;
      most = std::max(most, live_[op] + live[op] - kept[op]);
    }
    std::ranges::stable_sort(replays, {}, &replays::Replay::before);
    schedules_.push_back({.end = static_cast<int>(edges_.size()), .seconds = seconds, .replays = std::move(replays)});
    const std::vector<const regions::Edge*> path{&schedules_.back()};
    for (std::size_t end = 0; end < ends_.size(); ++end) {
      const std::int64_t bytes = std::max({around_, peak, loss + chunks_[end].scratch});
      plans_.push_back({bytes, ends_[end].seconds + seconds_of(path), static_cast<int>(end), path});
    }
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

}  // namespace plimsoll
