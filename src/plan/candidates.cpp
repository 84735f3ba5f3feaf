#include "plan/candidates.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "plan/block_options.h"
#include "plan/bound.h"
#include "plan/replays/from_graph.h"
#include "plan/step_roles.h"

namespace plimsoll {

namespace {

// Plans that do the same in another order add the same costs in another order. Without the last bits, which only tell that order,
// they take equally long.
double without_last_bits(double seconds) {
  constexpr int kBits = 36;
  int exponent = 0;
  const double fraction = std::frexp(seconds, &exponent);
  return std::ldexp(std::round(std::ldexp(fraction, kBits)), exponent - kBits);
}

}  // namespace

std::optional<int> middle_of(const SomeBlocks& faster, const SomeBlocks& slower) {
  constexpr double kStep = 1.08;
  const int middle = (faster.blocks + slower.blocks) / 2;
  const bool worth = slower.seconds > kStep * faster.seconds && middle != std::min(faster.blocks, slower.blocks);
  return worth ? std::optional(middle) : std::nullopt;
}

BatchModel::BatchModel(Graph training, std::int64_t micro_batch, std::int64_t accumulation, int threads,
                       KernelCatalogue& catalogue)
    : graph(std::move(training)),
      micro_batch(micro_batch),
      accumulation(accumulation),
      blocks(find_blocks(graph)),
      kernels(threads, catalogue) {
  // The first and the last block may have neighbours of another kind; those between are alike.
  if (!blocks.empty()) curve = block_curve(graph, blocks[blocks.size() / 2], kernels);
}

BatchCandidates::BatchCandidates(BatchModel& model, const Paging& paging, std::int64_t group, const PlanRequest& request,
                                 const Machine& machine, Floor floor)
    : model_(&model),
      paging_(paging),
      window_{model.accumulation, group},
      chunks_simulated_(request.loss_chunks.value_or(1)),
      saves_(request.saves),
      only_offloaded_(request.activations == RestPolicy::disk),
      looks_for_floor_(floor.counts),
      paged_(apply_paging(model.graph, model.blocks, paging)) {
  list_options(request.recompute);
  const Simulation keep = simulate_uniform(options_.front());
  look_at(keep, request, machine, floor);
  if (!paging_.active()) {
    std::vector<LossChunks> chunks;
    for (const ChunkChoice& choice : chunks_) chunks.push_back({choice.scratch, choice.seconds});
    regions_.emplace(keep, chunks, request.recompute);
    paged_ = {};
    return;
  }
  composes_ = blocks_compose(keep, blocks());
  look_at_option(options_.front(), keep, machine);
  for (Option* option : {&options_[first_allowed_], &options_.back()}) look_at_option(*option, machine);
  if (offloads(request)) add_offloaded(most_offloaded(), BlockMode::recompute, request, machine);
  paged_ = {};
}

void BatchCandidates::complete(const PlanRequest& request, const Machine& machine) {
  paged_ = apply_paging(model_->graph, model_->blocks, paging_);
  if (!regions_) {
    for (Option& option : options_) look_at_option(option, machine);
    if (looks_for_floor_ && request.recompute != RecomputePolicy::none) add_joined(request, machine);
    if (offloads(request)) add_more_offloaded(request, machine);
  }
  // Every node decided on by itself: without repeated blocks, and where memory is short. Deep models have enough blocks to mix.
  constexpr std::size_t kMostSteps = 1500;
  const bool wanted = blocks().size() <= 1 || (looks_for_floor_ && least_steps_ <= kMostSteps);
  const bool possible =
      request.recompute == RecomputePolicy::automatic && !paging_.parameters && !paging_.accumulators && window_.group == 1;
  if (wanted && possible) add_replays(request, machine);
  paged_ = {};
}

std::vector<Candidate> BatchCandidates::ends(std::size_t batch_index) const {
  std::vector<Candidate> candidates;
  const auto all_do = [&](std::size_t option) {
    Candidate candidate = uniform(option);
    candidate.batch = batch_index;
    add_candidates(candidate, candidates);
  };
  if (regions_) {
    candidates.push_back(candidate_of(batch_index, 0));
    candidates.push_back(candidate_of(batch_index, regions_->plans().size() - 1));
  } else {
    all_do(first_allowed_);
    if (options_.size() > first_allowed_ + 1) all_do(options_.size() - 1);
  }
  for (std::size_t i = 0; i < wholes_.size(); ++i) {
    add_candidates({.batch = batch_index, .runs = {}, .whole = static_cast<int>(i)}, candidates);
  }
  return candidates;
}

Candidate BatchCandidates::uniform(std::size_t option) const {
  return {.batch = 0, .runs = {{{static_cast<std::uint16_t>(option), static_cast<std::uint16_t>(blocks().size())}}}};
}

Simulation BatchCandidates::simulate_uniform(const Option& option) const {
  return simulate_window(with_replays(replays_of(std::vector<BlockChoice>(blocks().size(), option.choice)), 0));
}

void BatchCandidates::look_at_option(Option& option, const Simulation& simulation, const Machine& machine) {
  if (!composes_) {
    option.uniform = profile_whole(simulation);
    option.uniform->stall = costs_of(simulation, paging_, machine).micro_stall;
    return;
  }
  profile(option, simulation);
  if (!paging_.active()) return;
  UniformLanes lanes = lanes_of(simulation, blocks(), blocks_of_values(model_->graph, blocks()), paging_, machine);
  if (&option == &options_.front()) outer_lanes_ = std::move(lanes.outer);
  option.lanes = std::move(lanes.blocks);
}

void BatchCandidates::look_at_option(Option& option, const Machine& machine) {
  if (!option.looked_at() && !blocks().empty()) look_at_option(option, simulate_uniform(option), machine);
}

std::vector<NodeReplay> BatchCandidates::replays_of(const std::vector<BlockChoice>& choices) const {
  return replays_of_blocks(model_->graph, blocks(), choices);
}

Graph BatchCandidates::with_replays(const std::vector<NodeReplay>& replays, int activations) const {
  Paging paging = paging_;
  paging.activations = activations;
  return apply_choices(paged_, blocks(), replays, paging, window_);
}

Simulation BatchCandidates::simulate_window(Graph graph) const {
  return simulate(std::move(graph), window_.rounds(), chunks_simulated_, saves_, model_->kernels);
}

// Every micro-batch of a group needs at least what it would need by itself.
Bytes BatchCandidates::find_bound(const Simulation& keep, Floor floor) const {
  const Bytes loss = least_loss_scratch();
  if (window_.group == 1) return working_set_bound(keep, loss, floor.enough);
  const WindowOrder alone{window_.rounds(), 1};
  return working_set_bound(
      simulate(apply_choices(paged_, blocks(), {}, paging_, alone), alone.rounds(), chunks_simulated_, saves_, model_->kernels),
      loss, floor.enough);
}

// What does not depend on what blocks do.
void BatchCandidates::look_at(const Simulation& keep, const PlanRequest& request, const Machine& machine, Floor floor) {
  find_chunks(request, keep, machine);
  outside_ = total(paging_reserve(keep.graph, paging_, machine, 0));
  arena_bound_ = find_bound(keep, floor);
  least_steps_ = keep.timeline.steps.size();
  const auto simplest =
      std::min_element(chunks_.begin(), chunks_.end(), [](const auto& a, const auto& b) { return a.primitives < b.primitives; });
  least_primitives_ = count_primitives(keep, chunks_simulated_, machine.threads, /*loss=*/false) + simplest->primitives;
}

Bytes BatchCandidates::least_reserve(const Machine& machine, Bytes arena) const {
  const ReserveCounts counts{least_primitives_, static_cast<std::int64_t>(least_steps_), 0};
  return total(reserve_items(machine.reserve, counts, arena));
}

void BatchCandidates::add_joined(const PlanRequest& request, const Machine& machine) {
  constexpr int kMostJoined = 8;
  const auto count = static_cast<int>(blocks().size());
  for (int joined = 2; joined <= std::min(kMostJoined, count / 2); ++joined) {
    std::vector<BlockChoice> choices;
    for (int i = 0; i < count; ++i) choices.push_back(i % joined == 0 ? BlockMode::pieces : BlockMode::joined);
    add_whole({replays_of(choices), 0, {}, {}}, request, machine);
  }
}

bool BatchCandidates::offloads(const PlanRequest& request) const {
  const bool wanted = only_offloaded_ ? paging_.active() : paging_.parameters && paging_.resident == 0;
  const bool allowed = request.activations != RestPolicy::memory && request.recompute != RecomputePolicy::none;
  return wanted && allowed && composes_ && blocks().size() > 1;
}

std::size_t BatchCandidates::again() const {
  const auto found = std::find_if(options_.begin(), options_.end(),
                                  [](const Option& option) { return option.choice.mode == BlockMode::recompute; });
  return static_cast<std::size_t>(found - options_.begin());
}

// What crosses into the first blocks, which make everything again, rests on another tier between the passes. The seconds of an
// update; infinite where that tier has no room.
double BatchCandidates::add_offloaded(int activations, const BlockChoice& later, const PlanRequest& request,
                                      const Machine& machine) {
  std::vector<BlockChoice> choices(blocks().size(), BlockMode::recompute);
  std::fill(choices.begin() + activations, choices.end(), later);
  const bool added = add_whole({replays_of(choices), activations, {}, {}}, request, machine);
  return added ? seconds_of(wholes_.back().profile) : std::numeric_limits<double>::infinity();
}

// Of fewer blocks, where the others make everything again, too, keep everything or only what is dear. Worth a look where that is
// a good part of what is held when everything is made again.
void BatchCandidates::add_more_offloaded(const PlanRequest& request, const Machine& machine) {
  constexpr int kLeastPart = 16;
  std::int64_t held = 0;
  for (const BlockProfile& profile : options_[again()].profiles) held += profile.saved;
  if (!only_offloaded_ && held * kLeastPart < loss_base_ + held) return;
  const auto most = std::find_if(wholes_.begin(), wholes_.end(), [](const Whole& whole) { return whole.activations > 0; });
  const SomeBlocks slowest{most_offloaded(),
                           most != wholes_.end() ? seconds_of(most->profile) : std::numeric_limits<double>::infinity()};
  const auto add_between = [&](auto&& self, const BlockChoice& later, SomeBlocks fewer, SomeBlocks more) -> void {
    const std::optional<int> middle = middle_of(fewer, more);
    if (!middle) return;
    const SomeBlocks between{*middle, add_offloaded(*middle, later, request, machine)};
    self(self, later, fewer, between);
    self(self, later, between, more);
  };
  const auto add = [&](std::size_t option) {
    add_between(add_between, options_[option].choice, {0, seconds_of(profile_of(uniform(option)))}, slowest);
  };
  add(again());
  // What the others do past a link that is fast enough: the cheapest of what lies between, or nothing.
  const bool fast = has_host(machine) || only_offloaded_;
  if (fast && again() > 1) add(1);
  if (fast && first_allowed_ == 0) add(0);
}

void BatchCandidates::add_replays(const PlanRequest& request, const Machine& machine) {
  const Simulation keep = simulate_uniform(options_.front());
  for (std::vector<NodeReplay>& replays : replays::schedules(replays::problem_of(keep, chunks_.back().least))) {
    add_whole({std::move(replays), 0, {}, {}}, request, machine);
  }
}

// Unless the other tier has no room for it.
bool BatchCandidates::add_whole(Whole whole, const PlanRequest& request, const Machine& machine) {
  Graph graph = with_replays(whole.replays, whole.activations);
  if (whole.activations > 0 && !has_room(stored_layout(graph), paging_, request.beyond)) return false;
  const Simulation simulation = simulate_window(std::move(graph));
  whole.profile = profile_whole(simulation);
  whole.profile.stall = costs_of(simulation, paging_, machine).micro_stall;
  whole.outside = total(paging_reserve(simulation.graph, paging_, machine, 0));
  wholes_.push_back(std::move(whole));
  return true;
}

void BatchCandidates::list_options(RecomputePolicy policy) {
  // With a disk there are several times as many candidates, and in groups they take several times as long to look at.
  constexpr std::size_t kMostBetween = 5, kMostWithDisk = 3, kMostInGroups = 2;
  const std::size_t most = window_.group > 1 ? kMostInGroups : paging_.active() ? kMostWithDisk : kMostBetween;
  options_.push_back({.choice = BlockMode::keep});
  if (!paging_.active() || policy == RecomputePolicy::none || blocks().empty()) return;
  if (policy == RecomputePolicy::automatic) {
    for (BlockOption& some : block_options(model_->curve, most)) {
      options_.push_back({.choice = {BlockMode::cheap, std::move(some.again)}});
    }
  }
  first_allowed_ = policy == RecomputePolicy::all ? 1 : 0;
  options_.push_back({.choice = BlockMode::recompute});
  if (window_.group == 1 || policy == RecomputePolicy::all) options_.push_back({.choice = BlockMode::pieces});
}

void BatchCandidates::profile(Option& option, const Simulation& simulation) {
  const Timeline& timeline = simulation.timeline;
  const std::vector<int> block_of = block_of_steps(simulation, blocks());
  const LiveProfile steady = live_profile(simulation.lifetimes, timeline, Phase::steady);
  const std::vector<int> losses = find_losses(simulation);
  std::vector<BlockProfile>& profiles = option.profiles;
  profiles.assign(blocks().size(), {});

  for (const Buffer& buffer : simulation.lifetimes.buffers) {
    const int block = block_that_saves(buffer, losses.front(), block_of);
    if (block != kOutside) profiles[static_cast<std::size_t>(block)].saved += buffer.bytes.n;
  }
  std::vector<std::int64_t> before(blocks().size() + 1, 0);
  for (std::size_t i = 0; i < blocks().size(); ++i) before[i + 1] = before[i] + profiles[i].saved;

  const int first = timeline.micro.begin;
  const auto live_at = [&](int step) { return steady.bytes[static_cast<std::size_t>(step - first)].n; };
  int last_forward = first, first_backward = timeline.micro.end;
  for (int step = first; step < timeline.micro.end; ++step) {
    if (block_of[static_cast<std::size_t>(step)] == kOutside) continue;
    if (step < losses.front()) last_forward = step;
    if (step > losses.back()) first_backward = std::min(first_backward, step);
  }
  std::int64_t outside = peak_of_other_phases(simulation), between = 0, at_loss = 0;
  for (int step = first; step < timeline.update.end; ++step) {
    const int block = block_of[static_cast<std::size_t>(step)];
    if (block != kOutside) {
      BlockProfile& profile = profiles[static_cast<std::size_t>(block)];
      profile.peak = std::max(profile.peak, live_at(step) - before[static_cast<std::size_t>(block)]);
      profile.seconds += clone_seconds(simulation, step);
    } else if (std::ranges::binary_search(losses, step)) {
      at_loss = std::max(at_loss, live_without_scratch(simulation, steady, step) - before.back());
    } else if (step > last_forward && step < first_backward) {
      between = std::max(between, live_at(step) - before.back());
    } else {
      outside = std::max(outside, live_at(step));
    }
  }
  loss_base_ = at_loss;
  outside_peak_ = std::max(outside_peak_, outside);
  between_peak_ = std::max(between_peak_, between);
}

void BatchCandidates::find_chunks(const PlanRequest& request, const Simulation& simulation, const Machine& machine) {
  const std::vector<int> losses = find_losses(simulation);
  const Costs costs = costs_of(simulation, paging_, machine);
  const bool write = window_.rounds() == 1;
  const LaneModel model(simulation, paging_, machine);
  // With one number of chunks: of each loss the kernel, and what the kernels wait.
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
      // It streams with the one before, in the first micro-step of a window and in later ones.
      for (LaneEvent& event : events) event.kernels += own.empty() && i > 0 ? kernel : 0;
      append(events, own);
    }
    return micro_lanes(window_.rounds(), [&](LaneClock& clock) { clock.run(events); }).stall;
  };
  const std::vector<StepKernel> simulated = kernels(chunks_simulated_);
  base_seconds_ = static_cast<double>(window_.rounds()) * (costs.micro - seconds(simulated)) + costs.update + costs.update_stall;
  const double in_simulation = stall(simulated);
  const auto choice = [&](int chunks) {
    const std::vector<StepKernel> chosen = kernels(chunks);
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
  if (request.loss_chunks) chunks_ = {choice(*request.loss_chunks)};
  for (int chunks = 1; chunks <= kMostChunks && !request.loss_chunks; chunks *= 2) {
    const ChunkChoice next = choice(chunks);
    if (!chunks_.empty() && next.scratch >= chunks_.back().scratch) continue;
    chunks_.push_back(next);
  }
  const ChunkChoice& fastest = *std::ranges::min_element(chunks_, {}, &ChunkChoice::seconds);
  kernel_seconds_ =
      without_last_bits(base_seconds_ - costs.update_stall + static_cast<double>(window_.rounds()) * fastest.seconds);
}

BatchCandidates::MixtureProfile BatchCandidates::profile_whole(const Simulation& simulation) const {
  const Timeline& timeline = simulation.timeline;
  MixtureProfile profile{.peak = peak_of_other_phases(simulation)};
  const std::vector<int> losses = find_losses(simulation);
  const LiveProfile steady = live_profile(simulation.lifetimes, timeline, Phase::steady);
  for (int step = timeline.micro.begin; step < timeline.update.end; ++step) {
    if (std::ranges::binary_search(losses, step)) {
      profile.loss_base = std::max(profile.loss_base, live_without_scratch(simulation, steady, step));
    } else {
      profile.peak = std::max(profile.peak, steady.bytes[static_cast<std::size_t>(step - timeline.micro.begin)].n);
    }
    profile.seconds += clone_seconds(simulation, step);
  }
  return profile;
}

std::vector<const BatchCandidates::Option*> BatchCandidates::options_of(const Candidate& candidate) const {
  std::vector<const Option*> chosen;
  for (const Candidate::Run run : candidate.runs) chosen.insert(chosen.end(), run.blocks, &options_[run.option]);
  return chosen;
}

std::vector<NodeReplay> BatchCandidates::replays(const Candidate& candidate) const {
  if (candidate.whole >= 0) return wholes_[static_cast<std::size_t>(candidate.whole)].replays;
  if (regions_) return regions_->replays(regions_->plans()[candidate.chain]);
  std::vector<BlockChoice> choices;
  for (const Option* option : options_of(candidate)) choices.push_back(option->choice);
  return replays_of(choices);
}

Paging BatchCandidates::paging(const Candidate& candidate) const {
  Paging paging = paging_;
  if (candidate.whole >= 0) paging.activations = wholes_[static_cast<std::size_t>(candidate.whole)].activations;
  return paging;
}

BatchCandidates::MixtureProfile BatchCandidates::profile_of(const Candidate& candidate) const {
  if (candidate.whole >= 0) return wholes_[static_cast<std::size_t>(candidate.whole)].profile;
  if (!composes_) {
    const auto run = std::ranges::find_if(candidate.runs, [](const Candidate::Run& each) { return each.blocks > 0; });
    return options_[run == candidate.runs.end() ? 0 : run->option].uniform.value();
  }
  MixtureProfile mixture{.peak = outside_peak_};
  std::int64_t held = 0;
  const std::vector<const Option*> chosen = options_of(candidate);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const BlockProfile& profile = chosen[i]->profiles[i];
    mixture.peak = std::max(mixture.peak, held + profile.peak);
    mixture.seconds += profile.seconds;
    held += profile.saved;
  }
  mixture.peak = std::max(mixture.peak, held + between_peak_);
  mixture.loss_base = held + loss_base_;
  if (paging_.active()) {
    std::vector<const BlockLanes*> lanes;
    for (std::size_t i = 0; i < chosen.size(); ++i) lanes.push_back(&chosen[i]->lanes[i]);
    mixture.stall = stall_of(lanes, outer_lanes_, window_.rounds());
  }
  return mixture;
}

double BatchCandidates::seconds_of(const MixtureProfile& mixture, const ChunkChoice& chunks) const {
  const double micro = mixture.seconds + chunks.seconds + mixture.stall + chunks.stall;
  return without_last_bits(base_seconds_ + static_cast<double>(window_.rounds()) * micro);
}

// With the number of loss chunks that is fastest.
double BatchCandidates::seconds_of(const MixtureProfile& mixture) const {
  double least = std::numeric_limits<double>::infinity();
  for (const ChunkChoice& chunks : chunks_) least = std::min(least, seconds_of(mixture, chunks));
  return least;
}

Candidate BatchCandidates::candidate_of(std::size_t batch_index, std::size_t chain) const {
  const regions::ChainPlan& plan = regions_->plans()[chain];
  const double seconds = without_last_bits(base_seconds_ + static_cast<double>(window_.rounds()) * plan.seconds);
  return {.batch = batch_index,
          .loss_chunks = chunks_[static_cast<std::size_t>(plan.end)].chunks,
          .runs = {},
          .chain = chain,
          .live = Bytes{plan.bytes},
          .outside = outside_,
          .update_seconds = seconds};
}

// With each number of loss chunks.
void BatchCandidates::add_candidates(Candidate candidate, std::vector<Candidate>& to) const {
  const MixtureProfile mixture = profile_of(candidate);
  for (const ChunkChoice& chunk : chunks_) {
    candidate.loss_chunks = chunk.chunks;
    candidate.outside = candidate.whole < 0 ? outside_ : wholes_[static_cast<std::size_t>(candidate.whole)].outside;
    candidate.live = Bytes{std::max(mixture.peak, mixture.loss_base + chunk.scratch)};
    candidate.update_seconds = seconds_of(mixture, chunk);
    to.push_back(candidate);
  }
}

// Blocks near the input hold their values longest, so they are the ones that keep less: for equal blocks no other arrangement of
// the same counts has a lower peak. Those near the loss run while most is held, so they are the ones that go in pieces.
void BatchCandidates::add_mixtures(std::size_t batch_index, std::vector<Candidate>& to) const {
  const auto add = [&](std::array<Candidate::Run, 3> runs) { add_candidates({.batch = batch_index, .runs = runs}, to); };
  const auto so_many = [](std::size_t number) { return static_cast<std::uint16_t>(number); };
  const auto number = [](std::size_t option) { return static_cast<std::uint16_t>(option); };
  const bool in_pieces = options_.back().choice.mode == BlockMode::pieces;
  const std::size_t end = options_.size() - (in_pieces ? 1 : 0);  // of those that do not go in pieces
  for (std::size_t option = first_allowed_; option < end; ++option) {
    add({{{number(option), so_many(blocks().size())}}});
    for (std::size_t later = first_allowed_; composes_ && later < option; ++later) {
      for (std::size_t i = 1; i < blocks().size(); ++i) {
        add({{{number(option), so_many(i)}, {number(later), so_many(blocks().size() - i)}}});
      }
    }
  }
  for (std::size_t pieces = composes_ ? 1 : blocks().size(); in_pieces && pieces <= blocks().size(); ++pieces) {
    const Candidate::Run first{number(end - 1), so_many(blocks().size() - pieces)};
    add({{first, {number(end), so_many(pieces)}}});
    for (std::size_t last = std::max<std::size_t>(first_allowed_, 1); first.blocks > 0 && last + 1 < end; ++last) {
      add({{{first.option, so_many(first.blocks - 1U)}, {number(end), so_many(pieces)}, {number(last), 1}}});
    }
  }
}

std::vector<Candidate> BatchCandidates::all(std::size_t batch_index) const {
  std::vector<Candidate> candidates;
  for (std::size_t chain = 0; regions_ && chain < regions_->plans().size(); ++chain)
    candidates.push_back(candidate_of(batch_index, chain));
  if (!regions_ && !only_offloaded_) add_mixtures(batch_index, candidates);
  for (std::size_t i = 0; i < wholes_.size(); ++i) {
    if (only_offloaded_ && wholes_[i].activations == 0) continue;
    add_candidates({.batch = batch_index, .runs = {}, .whole = static_cast<int>(i)}, candidates);
  }
  return candidates;
}

}  // namespace plimsoll
