#include "plan/search/candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "plan/costs.h"
#include "plan/passes/paging.h"
#include "plan/search/bound.h"
#include "plan/step_roles.h"

namespace plimsoll {

namespace {

// Equal plans may add the same costs in different orders. The last bits tell only these orders, so they are rounded away.
double without_last_bits(double seconds) {
  constexpr int kBits = 36;
  int exponent = 0;
  const double fraction = std::frexp(seconds, &exponent);
  return std::ldexp(std::round(std::ldexp(fraction, kBits)), exponent - kBits);
}

}  // namespace

BatchModel::BatchModel(Graph training, std::int64_t micro_batch, std::int64_t accumulation, int threads,
                       KernelCatalogue& catalogue)
    : graph(std::move(training)),
      micro_batch(micro_batch),
      accumulation(accumulation),
      units(find_units(graph)),
      blocks(block_count(units)),
      trains(!graph.section_order(Section::micro).empty()),
      kernels(threads, catalogue) {}

BatchCandidates::BatchCandidates(BatchModel& model, const Residency& residency, std::int64_t group, const PlanRequest& request,
                                 const Machine& machine, Floor floor, const Wanted& wanted)
    : model_(&model),
      request_(&request),
      machine_(&machine),
      residency_(residency),
      window_{model.accumulation, group},
      chunks_simulated_(request.loss_chunks.value_or(1)),
      only_offloaded_(request.activations == RestPolicy::disk),
      looks_for_floor_(floor.counts) {
  const Graph paged = apply_paging(model.graph, model.units, residency);
  {
    const Simulation keep = simulate_window(keeping_all(paged, 0));
    look_at(keep, floor);
    if (!wanted(*this)) return;
    add_level(0, keep);
  }
  if (offloads()) add_offloaded(paged, model.blocks - 1);
}

void BatchCandidates::complete() {
  const bool ends_suffice = residency_.by_matrix || window_.group > 1;  // for little memory; their levels take long to plan
  if (offloads() && offloading_waits() && (only_offloaded_ || !ends_suffice)) {
    const int most = model_->blocks - 1;
    const Graph paged = apply_paging(model_->graph, model_->units, residency_);
    for (const int part : {1, 2}) {
      const int activations = most * part / 3;
      if (activations > 0) add_offloaded(paged, activations);
    }
  }
  if (!adds_schedules()) return;
  levels_.front().regions.add_schedules();
  levels_.front().regions.end_schedules();
}

// True if offloading the inputs of all blocks costs time. Otherwise offloading fewer of them saves no time.
bool BatchCandidates::offloading_waits() const {
  const auto seconds = [&](std::size_t level) {
    return std::ranges::min(of_level(0, level), {}, &Candidate::update_seconds).update_seconds;
  };
  return levels_.size() < 2 || seconds(1) > (1 + kLeastGain) * seconds(0);
}

void BatchCandidates::forget_other_edges() {
  for (Level& level : levels_) level.regions.forget_other_edges();
}

void BatchCandidates::forget_plans() {
  for (Level& level : levels_) level.regions.forget_plans();
}

// Schedules of single nodes: for graphs without repeated blocks, and for little memory.
bool BatchCandidates::adds_schedules() const {
  constexpr std::int64_t kMostSteps = 1500;
  const bool wanted = decides_on_nodes() && (model_->blocks <= 1 || least_counts_.steps <= kMostSteps);
  const bool possible = request_->recompute == RecomputePolicy::automatic && !residency_.parameters.beyond &&
                        !residency_.accumulators.beyond && window_.group == 1;
  return wanted && possible;
}

void BatchCandidates::add_level(int activations, const Simulation& keep) {
  std::vector<LossChunks> chunks;
  for (const ChunkChoice& choice : chunks_) chunks.push_back({choice.scratch, choice.seconds + choice.stall});
  const Residency residency = residency_of(activations);
  levels_.push_back({activations, total(paging_reserve(keep.graph, residency, *machine_, 0)),
                     RegionPlans(keep, model_->units, residency, *machine_, chunks, request_->recompute, model_->ways)});
  if (levels_.size() > 1 || !adds_schedules()) levels_.back().regions.end_schedules();
}

// Inputs of the first blocks rest on another tier between the passes, if it has room for them.
void BatchCandidates::add_offloaded(const Graph& paged, int activations) {
  Graph graph = keeping_all(paged, activations);
  if (!has_room(stored_layout(graph), residency_, request_->beyond)) return;
  add_level(activations, simulate_window(std::move(graph)));
}

std::vector<Candidate> BatchCandidates::of_level(std::size_t batch_index, std::size_t level) const {
  std::vector<Candidate> candidates;
  for (std::size_t chain = 0; chain < levels_[level].regions.plans().size(); ++chain)
    candidates.push_back(candidate_of(batch_index, level, chain));
  return candidates;
}

std::vector<Candidate> BatchCandidates::ends(std::size_t batch_index) const {
  std::vector<Candidate> ends;
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    const std::vector<Candidate> all = of_level(batch_index, level);
    ends.push_back(*std::ranges::min_element(all, {}, &Candidate::update_seconds));
    for (const auto measure : kMeasures) ends.push_back(*std::ranges::min_element(all, {}, measure));
  }
  return ends;
}

std::vector<Candidate> BatchCandidates::all(std::size_t batch_index) const {
  std::vector<Candidate> candidates;
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    if (only_offloaded_ && levels_[level].activations == 0) continue;
    const std::vector<Candidate> some = of_level(batch_index, level);
    candidates.insert(candidates.end(), some.begin(), some.end());
  }
  return candidates;
}

Residency BatchCandidates::residency_of(int activations) const {
  Residency residency = residency_;
  residency.inputs = activations;
  return residency;
}

Graph BatchCandidates::keeping_all(const Graph& paged, int activations) const {
  return apply_choices(paged, model_->units, {}, residency_of(activations), window_);
}

Simulation BatchCandidates::simulate_window(Graph graph) {
  ++simulations_;
  return plimsoll::simulate(std::move(graph), window_.rounds(), chunks_simulated_, request_->saves, model_->kernels);
}

// Finds the facts that do not depend on the nodes that run again.
void BatchCandidates::look_at(const Simulation& keep, Floor floor) {
  find_chunks(keep);
  arena_bound_ = working_set_bound(keep, least_loss_scratch(), floor.enough);
  least_counts_ = {
      .primitives = count_primitives(keep, chunks_simulated_, machine_->threads, /*loss=*/false) + least_loss_kernels(),
      .steps = static_cast<std::int64_t>(keep.timeline.steps.size()),
      .encoding = has_host(*machine_) ? Bytes{} : encoding_bytes(keep.graph),
      .reading = has_host(*machine_) || keep.graph.section_order(Section::micro).empty() ? Bytes{} : kReadBack};
  least_reserve_ = total(reserve_items(machine_->reserve, least_counts_, Bytes{0}));
}

Bytes BatchCandidates::loss_kernels(int chunks) const {
  const int kernels = std::ranges::find(chunks_, chunks, &ChunkChoice::chunks)->primitives;
  return machine_->reserve.per_primitive * (kernels - least_loss_kernels());
}

bool BatchCandidates::offloads() const {
  const bool wanted = residency_.active() && (only_offloaded_ || residency_.kept() == 0);
  const bool allowed = request_->activations != RestPolicy::memory && request_->recompute != RecomputePolicy::none;
  return wanted && allowed && model_->blocks > 1;
}

void BatchCandidates::find_chunks(const Simulation& simulation) {
  const std::vector<int> losses = find_losses(simulation);
  const Costs costs = costs_of(simulation, residency_, *machine_);
  const bool write = window_.rounds() == 1;
  const LaneModel model(simulation, residency_, *machine_);
  // For one number of chunks: the kernels of each loss, and their waits.
  const auto node_of = [&](int step) { return simulation.timeline.steps[static_cast<std::size_t>(step)].node; };
  const auto kernels = [&](int chunks) {
    std::vector<StepKernel> chosen;
    for (const int loss : losses) chosen.push_back(model_->kernels.of(simulation.graph, node_of(loss), chunks));
    return chosen;
  };
  const auto seconds = [&](const std::vector<StepKernel>& chosen) {
    return std::accumulate(chosen.begin(), chosen.end(), 0.0,
                           [&](double sum, const StepKernel& kernel) { return sum + kernel.of(write).seconds; });
  };
  const auto stall = [&](const std::vector<StepKernel>& chosen) {
    LaneEvents events;
    for (std::size_t i = 0; i < losses.size(); ++i) {
      LaneEvents own = model.events_of(losses[i]);
      const double kernel = chosen[i].of(write).seconds;
      for (LaneEvent& event : own) event.kernels = kernel;
      // A loss without events streams with the one before, in all micro-steps of a window.
      for (LaneEvent& event : events) event.kernels += own.empty() && i > 0 ? kernel : 0;
      append(events, own);
    }
    return micro_lanes(window_.rounds(), events).stall;
  };
  const std::vector<StepKernel> simulated = kernels(chunks_simulated_);
  base_seconds_ = static_cast<double>(window_.rounds()) * (costs.micro + costs.micro_exchanges - seconds(simulated)) +
                  costs.update + costs.update_stall;
  const double in_simulation = stall(simulated);
  const auto choice = [&](int chunks) {
    const std::vector<StepKernel> chosen = kernels(chunks);
    if (losses.empty()) return ChunkChoice{.chunks = chunks};
    const bool together = streams_with(simulation.graph, simulation.timeline, losses.front()).end > losses.front() + 1;
    Bytes scratch, least{std::numeric_limits<std::int64_t>::max()};
    for (const StepKernel& kernel : chosen) {
      const Bytes own = align_up(kernel.scratch(), kAlignment);
      scratch = together ? scratch + own : std::max(scratch, own);
      least = std::min(least, own);
    }
    if (together) least = scratch;
    const StepKernel& first = chosen.front();
    const int primitives = write ? first.write.primitives : std::max(first.add.primitives, first.write.primitives);
    return ChunkChoice{chunks, scratch.n, least.n, seconds(chosen), primitives, stall(chosen) - in_simulation};
  };
  constexpr int kMostChunks = 1 << 14;
  if (request_->loss_chunks) chunks_ = {choice(*request_->loss_chunks)};
  for (int chunks = 1; chunks <= kMostChunks && !request_->loss_chunks; chunks *= 2) {
    const ChunkChoice next = choice(chunks);
    if (!chunks_.empty() && next.scratch >= chunks_.back().scratch) continue;
    chunks_.push_back(next);
  }
  const ChunkChoice& fastest = *std::ranges::min_element(chunks_, {}, &ChunkChoice::seconds);
  kernel_seconds_ =
      without_last_bits(base_seconds_ - costs.update_stall + static_cast<double>(window_.rounds()) * fastest.seconds);
}

void BatchCandidates::simulate(std::span<Candidate* const> candidates) const {
  const Graph paged = apply_paging(model_->graph, model_->units, residency_);
  for (Candidate* candidate : candidates) {
    const Residency own = residency(*candidate);
    Graph graph = apply_choices(paged, model_->units, replays(*candidate), own, window_);
    take_from(plimsoll::simulate(std::move(graph), window_.rounds(), candidate->loss_chunks, request_->saves, model_->kernels),
              own, *candidate);
  }
}

void BatchCandidates::take_from(const Simulation& simulation, const Residency& residency, Candidate& candidate) const {
  candidate.simulated = true;
  candidate.live = {};
  for (const Phase phase : simulation.timeline.phases()) {
    candidate.live = std::max(candidate.live, live_profile(simulation.lifetimes, simulation.timeline, phase).peak);
  }
  ReserveCounts counts = least_counts_;
  counts.steps = static_cast<std::int64_t>(simulation.timeline.steps.size());
  candidate.reserve = total(reserve_items(machine_->reserve, counts, Bytes{0})) + loss_kernels(candidate.loss_chunks);
  candidate.transfers = total(paging_reserve(simulation.graph, residency, *machine_, 0));
  const Costs costs = costs_of(simulation, residency, *machine_);
  const double rounds = static_cast<double>(window_.rounds());
  candidate.update_seconds = without_last_bits(rounds * (costs.micro + costs.micro_stall) + costs.update + costs.update_stall);
}

std::int64_t BatchCandidates::labels() const {
  std::int64_t labels = 0;
  for (const Level& level : levels_) labels += level.regions.labels();
  return labels;
}

std::vector<NodeReplay> BatchCandidates::replays(const Candidate& candidate) const {
  const RegionPlans& regions = levels_[candidate.level].regions;
  return regions.replays(regions.plans()[candidate.chain]);
}

Candidate BatchCandidates::candidate_of(std::size_t batch_index, std::size_t level, std::size_t chain) const {
  const RegionPlans& regions = levels_[level].regions;
  const regions::ChainPlan& plan = regions.plans()[chain];
  std::int64_t again = 0;
  for (const regions::Edge* edge : plan.edges) again += std::ssize(edge->replays);
  const int chunks = chunks_[static_cast<std::size_t>(plan.end)].chunks;
  const Bytes clones = machine_->reserve.per_step * (regions.exact() ? again : 0);
  return {.batch = batch_index,
          .loss_chunks = chunks,
          .level = level,
          .chain = chain,
          .live = Bytes{plan.bytes},
          .transfers = levels_[level].transfers,
          .reserve = least_reserve_ + loss_kernels(chunks) + clones,
          .update_seconds = without_last_bits(base_seconds_ + static_cast<double>(window_.rounds()) * plan.seconds)};
}

}  // namespace plimsoll
