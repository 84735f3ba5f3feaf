#include "plan/regions/region_plans.h"

#include <algorithm>
#include <span>

#include "plan/step_roles.h"

namespace plimsoll {
namespace {

// With links the waits of each plan are found one by one.
constexpr std::size_t kMostLabels = 2048, kMostWithLinks = 512;

}  // namespace

RegionPlans::RegionPlans(const Simulation& keep, const std::vector<Unit>& units, const Residency& residency,
                         const Machine& machine, const std::vector<LossChunks>& chunks, RecomputePolicy policy,
                         regions::KnownWays& known)
    : chunks_(chunks) {
  const std::int64_t least_scratch = std::ranges::min_element(chunks, {}, &LossChunks::scratch)->scratch;
  const std::int64_t most_scratch = std::ranges::max_element(chunks, {}, &LossChunks::scratch)->scratch;
  graph_ = std::make_unique<replays::GraphProblem>(
      replays::problem_of(keep, units, residency.by_matrix, least_scratch, machine.rank_link));
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
  // Segments stay within units that fetch everything at once.
  const int longest = residency.parameters.beyond && !residency.by_matrix ? 2 : grouped ? 2 : residency.by_matrix ? 4 : 8;
  edges_ = regions::find_edges(problem, regions, live_,
                               {.keeps = policy != RecomputePolicy::all,
                                .some = policy != RecomputePolicy::none,
                                .longest = longest,
                                .local = residency.active() && !residency.by_matrix ? 0 : 2},
                               &known);
  for (const LossChunks& each : chunks) ends_.push_back({std::max(between, loss + each.scratch), each.seconds});
  if (residency.active()) {
    exact_seconds_ = !residency.by_matrix && !(grouped && residency.inputs > 0);
    lanes_.emplace(keep, *graph_, residency, machine);
  }
  add(regions::solve_chain(edges_, ends_, outside_, lanes_ ? kMostWithLinks : kMostLabels, &labels_));
  of_chain_ = plans_.size();
}

void RegionPlans::add(std::vector<regions::ChainPlan> plans) {
  std::vector<std::vector<replays::Replay>> again;
  for (const regions::ChainPlan& plan : plans) {
    if (lanes_) again.push_back(replays_of(plan.edges));
  }
  const std::vector<double> stalls = lanes_ ? lanes_->stalls(again) : std::vector<double>(plans.size(), 0);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    regions::ChainPlan& plan = plans_.emplace_back(std::move(plans[i]));
    plan.seconds = ends_[static_cast<std::size_t>(plan.end)].seconds + stalls[i];
    for (const regions::Edge* edge : plan.edges) plan.seconds += edge->seconds;
  }
}

void RegionPlans::end_schedules() {
  lanes_.reset();
  graph_->problem = {};
}

void RegionPlans::forget_other_edges() {
  const auto of_chain = std::span(plans_).first(of_chain_);
  std::vector<std::vector<const regions::Edge*>> now;  // by region and edge: its new place, if a plan uses it
  for (const std::vector<regions::Edge>& some : edges_) now.emplace_back(some.size(), nullptr);
  const auto walk = [&](auto&& visit) {
    for (regions::ChainPlan& plan : of_chain) {
      std::size_t region = 0;
      for (const regions::Edge*& edge : plan.edges) {
        const auto end = static_cast<std::size_t>(edge->end);
        visit(edge, now[region][static_cast<std::size_t>(edge - edges_[region].data())]);
        region = end;
      }
    }
  };
  walk([](const regions::Edge* edge, const regions::Edge*& place) { place = edge; });
  std::vector<std::vector<regions::Edge>> kept(edges_.size());
  for (std::size_t region = 0; region < edges_.size(); ++region) {
    kept[region].reserve(
        static_cast<std::size_t>(std::ranges::count_if(now[region], [](auto* edge) { return edge != nullptr; })));
    for (std::size_t i = 0; i < edges_[region].size(); ++i) {
      if (now[region][i] != nullptr) now[region][i] = &kept[region].emplace_back(std::move(edges_[region][i]));
    }
  }
  walk([](const regions::Edge*& edge, const regions::Edge* place) { edge = place; });
  edges_ = std::move(kept);
}

void RegionPlans::forget_plans() {
  plans_ = {};
  edges_ = {};
  schedules_ = {};
}

// Adds each schedule as one edge over all regions. Bytes outside the items of the problem do not depend on the schedule.
void RegionPlans::add_schedules() {
  const replays::Problem& problem = graph_->problem;
  std::vector<std::int64_t> kept, live;
  std::vector<regions::ChainPlan> plans;
  const double once = replays::evaluate(problem, {}, &kept)->seconds;
  for (std::vector<replays::Replay>& replays : replays::schedules(problem)) {
    const double seconds = replays::evaluate(problem, replays, &live)->seconds - once;
    std::int64_t loss = 0, peak = 0;
    for (std::size_t op = 0; op < live.size(); ++op) {
      std::int64_t& most = std::ranges::binary_search(losses_, static_cast<int>(op)) ? loss : peak;
      most = std::max(most, live_[op] + live[op] - kept[op]);
    }
    schedules_.push_back({.end = static_cast<int>(edges_.size()), .seconds = seconds, .replays = std::move(replays)});
    for (std::size_t end = 0; end < ends_.size(); ++end)
      plans.push_back({std::max({around_, peak, loss + chunks_[end].scratch}), 0, static_cast<int>(end), {&schedules_.back()}});
  }
  add(std::move(plans));
}

}  // namespace plimsoll
