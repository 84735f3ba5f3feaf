#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <ranges>
#include <set>
#include <span>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/tasks.h"
#include "plan/build_plan.h"
#include "plan/plan.h"
#include "plan/search/candidates.h"
#include "plan/search/combinations.h"
#include "plan/search/frontier.h"
#include "plan/search/resting.h"
#include "plan/search/space.h"
#include "plan/search/time_bound.h"

namespace plimsoll {
namespace {

constexpr double kKneeSlowdown = 1.03;
constexpr Bytes kNoBound{std::numeric_limits<std::int64_t>::max()};

bool takes(const PlanRequest& request, std::int64_t accumulation) { return !request.group || accumulation % *request.group == 0; }

// The smallest numbers of rows for which an expected window takes 2, 3, 4, 6, 8, 12, ... micro-steps.
std::vector<std::int64_t> ragged_micro_batches(const PlanRequest& request) {
  if (request.micro_batch) return {*request.micro_batch};
  std::set<std::int64_t> sizes{1};
  const std::int64_t rows = request.ragged->rows;
  for (std::int64_t power = 1; power < rows && !request.floor_only; power *= 2) {
    for (const std::int64_t steps : {2 * power, 3 * power}) {
      const std::int64_t size = ceil_div(rows, steps);
      if (request.most_rows == 0 || size <= request.most_rows) sizes.insert(size);
    }
  }
  return {sizes.begin(), sizes.end()};
}

std::vector<std::int64_t> micro_batches(const PlanRequest& request) {
  if (request.ragged) return ragged_micro_batches(request);
  std::vector<std::int64_t> sizes;
  for (std::int64_t b = 1; b <= request.effective_batch; ++b) {
    if (request.effective_batch % b != 0 || b % request.row_step != 0) continue;
    const bool few = request.most_rows == 0 || b <= request.most_rows;
    const bool wanted = request.micro_batch ? *request.micro_batch == b : few;
    if (wanted && takes(request, request.accumulation(b))) sizes.push_back(b);
  }
  const bool divides = request.effective_batch % request.micro_batch.value_or(1) == 0;
  if (request.floor_only && sizes.size() > 1) sizes.resize(1);
  if (sizes.empty() && request.group && divides) {
    throw config_error("E-BATCH-3", "plan.group",
                       fmt::format("{} does not divide the number of micro-batches of a window of {} samples", *request.group,
                                   request.effective_batch),
                       "a divisor of it", {Change("plan.group", "auto")});
  }
  if (sizes.empty()) {
    throw config_error(
        "E-BATCH-3", "train.micro_batch",
        fmt::format("{} does not divide the effective batch of {}", request.micro_batch.value_or(0), request.effective_batch),
        "a divisor of the effective batch");
  }
  return sizes;
}

// Rungs are dropped while no budget gets a plan that is slower by more than this share; the smallest rung stays.
constexpr double kLeastSlowdown = 0.0005;

std::vector<std::size_t> without_close_rungs(const std::vector<Candidate>& all, const std::vector<std::size_t>& rungs) {
  const auto seconds = [&](std::size_t rung) { return all[rungs[rung]].update_seconds; };
  std::vector<std::size_t> kept{rungs.front()};
  for (std::size_t i = 1; i < rungs.size();) {
    std::size_t last = i;
    while (last + 1 < rungs.size() && seconds(last + 1) <= (1 + kLeastSlowdown) * seconds(i)) ++last;
    kept.push_back(rungs[last]);
    i = last + 1;
  }
  return kept;
}

}  // namespace

struct PlanSpace::State {
  PlanRequest request;
  Machine machine;
  std::vector<std::unique_ptr<BatchModel>> models;  // by micro-batch size
  std::vector<BatchCandidates> batches;
  std::vector<bool> beaten;  // by batch: another one is at least as good, so it has no candidates
  std::vector<Candidate> ladder;
  std::map<std::size_t, Plan> plans;  // outlines by rung
  std::optional<Bytes> floor, knee, ceiling;
  int simulated_rungs = 0;

  State(PlanRequest request, Machine machine) : request(std::move(request)), machine(std::move(machine)) {}

  void leave_out_beaten();
  void climb();
  void simulate(std::vector<Candidate*> candidates) const;
  const Plan& rung(std::size_t index);
  Plan plan_of(const Candidate& candidate, const std::vector<Bytes>* offsets = nullptr);
  Plan outline_of(std::size_t index);
  void build_rungs(std::vector<std::size_t> indices);
  std::size_t find_knee() const;
  std::optional<std::size_t> fastest_within(Bytes memory);
  TimeBound time_bound(Bytes memory);
  bool exact(const Candidate& candidate) const { return candidate.simulated || batches[candidate.batch].exact(candidate); }
  std::vector<std::size_t> rungs_by_process() const;
  // The budget that a rung needs, at least the bound known before its plan.
  Bytes needs(std::size_t index) { return agrees(index) ? std::max(rung(index).process, ladder[index].held()) : kNoBound; }
  bool agrees(std::size_t index);
  // The bytes on the host leave room for its process as estimated; its actual size is checked here.
  bool fits_host(const Plan& plan) const { return !limits_host(request, machine) || plan.host <= request.beyond[0]; }
};

PlanSpace::PlanSpace(GraphSource source, PlanRequest request, Machine machine, KernelCatalogue& catalogue)
    : state_(std::make_unique<State>(std::move(request), std::move(machine))) {
  state_->request.beyond.resize(std::min(state_->request.beyond.size(), find_ways(state_->machine).links.size()));
  const std::vector<std::int64_t> sizes = micro_batches(state_->request);
  State& state = *state_;
  Combinations combinations = find_combinations(source, sizes, state.request, state.machine, catalogue);
  state.models = std::move(combinations.models);
  state.batches = std::move(combinations.batches);
  state.leave_out_beaten();
  run_tasks(state.batches.size(), [&](std::size_t i) {
    BatchCandidates& batch = state.batches[i];
    if (state.beaten[i]) return batch.forget_plans();
    batch.complete();
    batch.forget_other_edges();
  });
  for (const std::unique_ptr<BatchModel>& model : state.models) model->ways.of.clear();
  state.climb();
}

PlanSpace::~PlanSpace() = default;
PlanSpace::PlanSpace(PlanSpace&&) noexcept = default;

// A batch is beaten if another batch has a plan at least as fast as its fastest end and as small as its smallest. Candidates
// between its ends may hold slightly less, but no measured ladder had such a rung. Plans may exceed a host in ways that only a
// whole plan shows, so with a limited host no batch is left out.
void PlanSpace::State::leave_out_beaten() {
  for (const BatchCandidates& batch : batches) beaten.push_back(batch.levels() == 0);
  if (request.activations == RestPolicy::disk || limits_host(request, machine)) return;
  std::vector<std::vector<Candidate>> ends;
  for (std::size_t i = 0; i < batches.size(); ++i) ends.push_back(batches[i].ends(i));
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if (beaten[i] || batches[i].decides_on_nodes()) continue;
    const double seconds = std::ranges::min(ends[i], {}, &Candidate::update_seconds).update_seconds;
    const Bytes held = std::ranges::min(ends[i], {}, &Candidate::held).held();
    const Bytes values = std::ranges::min(ends[i], {}, &Candidate::values).values();
    const auto beats = [&](const Candidate& other) {
      const bool better = other.update_seconds < seconds || other.held() < held || other.values() < values;
      return other.batch != i && other.update_seconds <= seconds && other.held() <= held && other.values() <= values && better;
    };
    beaten[i] = std::ranges::any_of(ends | std::views::join, beats);
  }
}

// Candidates by time; each has fewer bytes than all faster ones.
std::vector<std::size_t> undominated(const std::vector<Candidate>& all, Bytes (Candidate::*bytes)() const) {
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return std::pair(all[i].update_seconds, (all[i].*bytes)()); });
  std::vector<std::size_t> kept;
  for (const std::size_t i : order) {
    if (kept.empty() || (all[i].*bytes)() < (all[kept.back()].*bytes)()) kept.push_back(i);
  }
  return without_close_rungs(all, kept);
}

// Candidates by time; in one of the measures, each has fewer bytes than all faster ones.
std::vector<std::size_t> undominated(const std::vector<Candidate>& all) {
  std::set<std::size_t> kept;
  for (const auto measure : kMeasures) {
    for (const std::size_t i : undominated(all, measure)) kept.insert(i);
  }
  std::vector<std::size_t> order(kept.begin(), kept.end());
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return std::pair(all[i].update_seconds, all[i].held()); });
  return order;
}

// Candidates of one batch are simulated together, since they start from the same graph.
void PlanSpace::State::simulate(std::vector<Candidate*> candidates) const {
  std::ranges::stable_sort(candidates, {}, &Candidate::batch);
  std::vector<std::span<Candidate* const>> parts;
  constexpr std::ptrdiff_t kMost = 16;  // enough parts for all threads
  for (auto begin = candidates.begin(); begin != candidates.end();) {
    const auto other = [&](const Candidate* each) { return each->batch != (*begin)->batch; };
    const auto end = std::min(std::find_if(begin, candidates.end(), other), begin + std::min(kMost, candidates.end() - begin));
    parts.emplace_back(begin, end);
    begin = end;
  }
  run_tasks(parts.size(), [&](std::size_t i) { batches[parts[i].front()->batch].simulate(parts[i]); });
}

// The ladder does not depend on the budget. Rungs without exact seconds are simulated, and the ladder is built again. If they are
// too many, each round spends half of the simulations left on them, spread evenly; candidates never simulated are dropped.
void PlanSpace::State::climb() {
  const std::size_t most_simulated = request.floor_only ? 24 : 200;  // each takes about 20 ms
  std::vector<Candidate> all;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if (beaten[i]) continue;
    const std::vector<Candidate> some = batches[i].all(i);
    all.insert(all.end(), some.begin(), some.end());
  }
  if (all.empty()) {
    throw config_error(
        "E-PLAN-ACTIVATIONS", "plan.activations", "no input of a block can rest on another tier here",
        "another tier with room for the inputs and the optimizer state, and blocks that may recompute the other values",
        {Change("plan.activations", "auto")});
  }
  const auto unknown = [&](const Candidate& each) { return !each.simulated && !batches[each.batch].exact_seconds(each); };
  for (std::size_t left = most_simulated;;) {
    const std::vector<std::size_t> rungs = undominated(all);
    std::vector<std::size_t> open;
    std::ranges::copy_if(rungs, std::back_inserter(open), [&](std::size_t i) { return unknown(all[i]); });
    if (open.empty()) {
      for (const std::size_t i : rungs) ladder.push_back(all[i]);
      return;
    }
    if (left == 0) {
      std::erase_if(all, unknown);
      continue;
    }
    const std::size_t count = open.size() <= left ? open.size() : ceil_div(left, std::size_t{2});
    left -= count;
    simulated_rungs += static_cast<int>(count);
    std::vector<Candidate*> chosen;  // includes the smallest
    for (std::size_t i = 0; i < count; ++i) chosen.push_back(&all[open[open.size() - 1 - i * open.size() / count]]);
    simulate(std::move(chosen));
  }
}

const Plan& PlanSpace::State::rung(std::size_t index) {
  const auto found = plans.find(index);
  return found != plans.end() ? found->second : plans.emplace(index, outline_of(index)).first->second;
}

// The facts that judge a rung, and the offsets from which its plan can be made again: a search looks at many rungs.
Plan PlanSpace::State::outline_of(std::size_t index) {
  Plan plan = plan_of(ladder[index]);
  std::vector<Bytes> offsets = std::move(plan.offsets);
  plan.forget_analysis();
  plan.graph = {};
  plan.offsets = std::move(offsets);
  return plan;
}

// Builds in parallel the rungs that are certain to be used.
void PlanSpace::State::build_rungs(std::vector<std::size_t> indices) {
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  std::erase_if(indices, [&](std::size_t index) { return plans.contains(index); });
  std::vector<std::optional<Plan>> built(indices.size());
  run_tasks(indices.size(), [&](std::size_t i) { built[i] = outline_of(indices[i]); });
  for (std::size_t i = 0; i < indices.size(); ++i) plans.emplace(indices[i], *std::move(built[i]));
}

Plan PlanSpace::State::plan_of(const Candidate& candidate, const std::vector<Bytes>* offsets) {
  const BatchCandidates& batch = batches[candidate.batch];
  BatchModel& model = batch.model();
  const PlanDecisions decisions{.micro_batch = model.micro_batch,
                                .accumulation = model.accumulation,
                                .group = batch.window().group,
                                .loss_chunks = candidate.loss_chunks,
                                .residency = batch.residency(candidate),
                                .replays = batch.replays(candidate)};
  Plan plan = build_plan(model.graph, model.units, decisions, request, machine, model.kernels, offsets);
  // The sum that ordered the rungs. The same sum in another order could make a rung faster than those before it.
  plan.update_seconds = candidate.update_seconds;
  return plan;
}

// True if the simulator confirms the bytes that placed the rung. No budget gets a rung without that.
bool PlanSpace::State::agrees(std::size_t index) {
  const Plan& plan = rung(index);
  const Candidate& candidate = ladder[index];
  return exact(candidate) ? plan.live == candidate.live : plan.live <= candidate.live;
}

// Rungs by the lower bound of their process, the smallest first.
std::vector<std::size_t> PlanSpace::State::rungs_by_process() const {
  std::vector<std::size_t> order(ladder.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return ladder[i].held(); });
  return order;
}

// Bytes after layout need not fall from rung to rung, so each rung is judged by its plan.
std::optional<std::size_t> PlanSpace::State::fastest_within(Bytes memory) {
  for (std::size_t i = 0; i < ladder.size(); ++i) {
    if (ladder[i].held() <= memory && needs(i) <= memory && fits_host(rung(i))) return i;
  }
  return {};
}

Bytes PlanSpace::floor() {
  if (state_->floor) return *state_->floor;
  Bytes& least = state_->floor.emplace(kNoBound);
  for (const std::size_t i : state_->rungs_by_process()) {
    if (state_->ladder[i].held() >= least) break;
    if (state_->fits_host(state_->rung(i))) least = std::min(least, state_->needs(i));
  }
  return least;
}

// The least bound over all micro-batch sizes and groups, for all other decisions.
TimeBound PlanSpace::State::time_bound(Bytes memory) {
  std::vector<TimeBound> bounds(models.size());
  run_tasks(models.size(), [&](std::size_t i) {
    struct Least {
      double kernels = std::numeric_limits<double>::max();
      Bytes reserve = kNoBound, scratch = kNoBound;
    };
    std::map<std::int64_t, Least> groups;
    for (const BatchCandidates& batch : batches) {
      if (&batch.model() != models[i].get()) continue;
      Least& least = groups[batch.window().group];
      least.kernels = std::min(least.kernels, batch.kernel_seconds());
      least.reserve = std::min(least.reserve, batch.least_reserve());
      least.scratch = std::min(least.scratch, batch.least_loss_scratch());
    }
    const TimeCuts cuts(*models[i], request.saves);
    bounds[i].compute = std::numeric_limits<double>::infinity();
    for (const auto& [group, least] : groups) {
      const TimeBound bound = cuts.within(memory - least.reserve, least.kernels, least.scratch, group, request, machine);
      if (bound.seconds() < bounds[i].seconds()) bounds[i] = bound;
    }
  });
  return *std::ranges::min_element(bounds, {}, &TimeBound::seconds);
}

Bytes PlanSpace::floor_bound() {
  Bytes bound = kNoBound;
  for (const BatchCandidates& batch : state_->batches) bound = std::min(bound, batch.bound());
  return bound;
}

Bytes PlanSpace::ceiling() {
  for (std::size_t i = 0; !state_->ceiling && i < state_->ladder.size(); ++i) {
    if (state_->agrees(i)) state_->ceiling = state_->needs(i);
  }
  ensure(state_->ceiling.has_value(), "planner", "the simulator confirms no rung");
  return *state_->ceiling;
}

std::size_t PlanSpace::State::find_knee() const {
  const double most = kKneeSlowdown * ladder.front().update_seconds;
  const auto slower = std::ranges::upper_bound(ladder, most, {}, &Candidate::update_seconds);
  return static_cast<std::size_t>(std::ranges::min_element(ladder.begin(), slower, {}, &Candidate::held) - ladder.begin());
}

Bytes PlanSpace::knee() {
  std::size_t rung = state_->find_knee();
  while (rung > 0 && !state_->agrees(rung)) --rung;
  if (!state_->knee) state_->knee = state_->needs(rung);
  return *state_->knee;
}

const std::vector<Candidate>& PlanSpace::ladder() const { return state_->ladder; }

static double nodes_of(const BatchModel& model) { return static_cast<double>(model.graph.nodes.size()); }

PlanningEffort PlanSpace::effort() const {
  // Work per node of a built graph, of a combination's level and of a simulated rung; work per label.
  constexpr double kOfGraph = 10, kOfCombination = 6, kOfRung = 2.5, kOfLabel = 1.0 / 150;
  PlanningEffort effort{.simulations = state_->simulated_rungs};
  for (const BatchCandidates& batch : state_->batches) {
    effort.combinations += static_cast<int>(batch.levels());
    effort.simulations += batch.simulations();
    effort.labels += batch.labels();
    effort.work += kOfCombination * static_cast<double>(batch.levels()) * nodes_of(batch.model());
  }
  for (const auto& model : state_->models) effort.work += kOfGraph * nodes_of(*model);
  if (!state_->models.empty()) effort.work += kOfRung * state_->simulated_rungs * nodes_of(*state_->models.front());
  effort.work += kOfLabel * static_cast<double>(effort.labels);
  return effort;
}

std::vector<FrontierPoint> PlanSpace::frontier(int most, std::span<const Bytes> budgets) {
  std::vector<Bytes> wanted{floor(), knee(), ceiling()};
  for (const Bytes budget : budgets) {
    if (budget >= floor()) wanted.push_back(budget);
  }
  std::set<std::size_t, std::greater<>> rungs;  // slowest and thus smallest first
  const auto add = [&](Bytes budget) {
    if (const std::optional<std::size_t> rung = state_->fastest_within(budget)) rungs.insert(*rung);
  };
  for (const Bytes budget : wanted) add(budget);
  // A faster rung replaces one that layout has made larger.
  for (const std::size_t i : spread_rungs(state_->ladder, most - static_cast<int>(rungs.size()))) {
    if (state_->agrees(i)) add(state_->needs(i));
  }
  std::vector<FrontierPoint> points;
  for (const std::size_t i : rungs) {
    const Plan& plan = state_->rung(i);
    const double rate = plan.update_seconds > 0 ? static_cast<double>(plan.units_per_update) / plan.update_seconds : 0;
    points.push_back({plan.decisions, plan.units, plan.process, plan.arena, plan.live, plan.update_seconds, rate});
  }
  return points;
}

const Plan* PlanSpace::fastest(const Budget& budget) {
  const std::optional<std::size_t> rung = state_->fastest_within(budget.memory.value_or(ceiling()));
  return rung ? &state_->rung(*rung) : nullptr;
}

std::variant<Plan, Infeasible> PlanSpace::best(const Budget& budget) {
  const std::vector<Candidate>& ladder = state_->ladder;
  const auto fits = [&](Bytes process) { return !budget.memory || process <= *budget.memory; };
  const std::size_t smallest_rung = state_->rungs_by_process().front();
  const auto chosen = static_cast<std::size_t>(std::ranges::find_if(ladder, fits, &Candidate::held) - ladder.begin());
  state_->build_rungs({chosen < ladder.size() ? chosen : smallest_rung, smallest_rung, state_->find_knee(), 0});
  const Bytes memory = budget.memory.value_or(ceiling());
  const Bytes lowest = floor();
  if (memory >= lowest) {
    const std::size_t rung = state_->fastest_within(memory).value();
    Plan plan = state_->plan_of(state_->ladder[rung], &state_->rung(rung).offsets);
    plan.floor = lowest;
    plan.floor_bound = floor_bound();
    plan.knee = knee();
    plan.ceiling = ceiling();
    plan.bound_seconds = state_->time_bound(memory);
    return plan;
  }
  const auto process = [](const auto& rung) { return rung.second.process; };
  const Plan& smallest = std::ranges::min_element(state_->plans, {}, process)->second;
  const PhasePlan& peak = *std::ranges::max_element(smallest.phases, {}, &PhasePlan::live);
  Infeasible infeasible{memory, lowest, floor_bound(), peak.name, peak.owners};
  for (const ReserveItem& item : smallest.reserve) infeasible.owners.push_back({item.name, item.bytes, {}});
  return infeasible;
}

}  // namespace plimsoll
