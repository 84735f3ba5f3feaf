#include "plan/candidates.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>

#include "base/error.h"
#include "plan/block_options.h"
#include "plan/bound.h"
#include "plan/passes/fetching.h"
#include "plan/replays/from_graph.h"

namespace plimsoll {
namespace {

constexpr int kOutside = -1;

// The block that each step of a micro-step works for, forward, backward or recomputing; kOutside for the rest. Steps of the
// update that run within it, and transfers, belong to the block whose pass they follow.
std::vector<int> block_of_steps(const Simulation& simulation, const std::vector<GraphBlock>& blocks) {
  std::map<std::string, int> block_of_line;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (const NodeId id : blocks[i].nodes) block_of_line[simulation.graph.nodes[id].line] = static_cast<int>(i);
  }
  std::vector<int> result;
  for (std::size_t i = 0; i < simulation.timeline.steps.size(); ++i) {
    const Step& step = simulation.timeline.steps[i];
    int block = kOutside;
    const bool follows = step.section == Section::update ||
                         (step.kind == Step::Kind::node && simulation.graph.nodes[step.node].op->transfer != Transfer::none);
    if (follows && simulation.timeline.micro.contains(static_cast<int>(i))) {
      block = result.back();
    } else if (step.kind == Step::Kind::node && step.section == Section::micro) {
      const auto found = block_of_line.find(simulation.graph.nodes[step.node].line);
      if (found != block_of_line.end()) block = found->second;
    }
    result.push_back(block);
  }
  return result;
}

int find_loss_step(const Simulation& simulation) {
  const StepRange micro = simulation.timeline.micro;
  for (int step = micro.begin; step < micro.end; ++step) {
    const Step& what = simulation.timeline.steps[static_cast<std::size_t>(step)];
    if (what.kind == Step::Kind::node && simulation.graph.nodes[what.node].op->chunked) return step;
  }
  throw internal_error("planner", "the training graph has no chunked loss");
}

Bytes scratch_of(const StepKernel& kernel) { return std::max(kernel.add.scratch, kernel.write.scratch); }

double seconds_of(const StepKernel& kernel, bool window_start) {
  return window_start ? kernel.write.seconds : kernel.add.seconds;
}

}  // namespace

Simulation simulate(Graph graph, std::int64_t accumulation, int loss_chunks, bool saves, NodeKernels& kernels) {
  Simulation simulation;
  simulation.graph = std::move(graph);
  simulation.timeline = make_timeline(simulation.graph, accumulation, saves);
  std::vector<Bytes> scratch;
  for (const Step& step : simulation.timeline.steps) {
    StepKernel kernel;
    if (step.kind == Step::Kind::node) kernel = kernels.of(simulation.graph, step.node, loss_chunks);
    scratch.push_back(scratch_of(kernel));
    simulation.kernels.push_back(std::move(kernel));
  }
  simulation.lifetimes = analyse(simulation.graph, simulation.timeline, scratch);
  return simulation;
}

namespace {

Graph apply_choices(const Graph& paged, const std::vector<GraphBlock>& blocks, const std::vector<BlockChoice>& choices,
                    const std::vector<NodeReplay>& replays, const Paging& paging, std::int64_t accumulation) {
  Graph result = apply_replays(apply_recompute(paged, blocks, choices), replays);
  return paging.parameters || paging.accumulators ? apply_fetching(std::move(result), blocks, paging.narrow, accumulation > 1)
                                                  : result;
}

}  // namespace

Graph apply_decisions(const Graph& graph, const std::vector<GraphBlock>& blocks, const std::vector<BlockChoice>& choices,
                      const std::vector<NodeReplay>& replays, const Paging& paging, std::int64_t accumulation) {
  return apply_choices(apply_paging(graph, blocks, paging), blocks, choices, replays, paging, accumulation);
}

Costs costs_of(const Simulation& simulation, const Paging& paging, const Machine& machine) {
  Costs costs;
  const bool always_first = simulation.timeline.accumulation == 1;
  const LaneModel model(simulation, paging, machine);
  LaneClock micro, update;
  for (std::size_t i = 0; i < simulation.kernels.size(); ++i) {
    const int step = static_cast<int>(i);
    const bool in_micro = simulation.timeline.micro.contains(step);
    if (!in_micro && !simulation.timeline.update.contains(step)) continue;
    const KernelChoice& kernel = always_first ? simulation.kernels[i].write : simulation.kernels[i].add;
    (in_micro ? costs.micro : costs.update) += kernel.seconds;
    (in_micro ? micro : update).run(model.events_of(step));
    const Step& what = simulation.timeline.steps[i];
    if (what.kind != Step::Kind::node || simulation.graph.nodes[what.node].op->transfer != Transfer::none) continue;
    ++(kernel.source == CostSource::measured   ? costs.measured
       : kernel.source == CostSource::recorded ? costs.recorded
                                               : costs.bound);
  }
  costs.micro_stall = micro.stall();
  costs.update_stall = update.stall();
  costs.micro_lanes = micro.busy();
  costs.update_lanes = update.busy();
  return costs;
}

int count_primitives(const Simulation& simulation, int loss_chunks, int threads, bool loss) {
  std::map<std::string, int> distinct;
  for (std::size_t i = 0; i < simulation.kernels.size(); ++i) {
    const StepKernel& kernel = simulation.kernels[i];
    if (kernel.add.primitives + kernel.write.primitives == 0) continue;
    const Node& node = simulation.graph.nodes[simulation.timeline.steps[i].node];
    if (node.op->chunked && !loss) continue;
    const bool always_first = simulation.timeline.accumulation == 1 && node.section == Section::micro;
    for (const bool overwrite : {false, true}) {
      if (!overwrite && always_first && starts_window(simulation.graph, node)) continue;
      const NodeRequest request = request_for(simulation.graph, node, threads, loss_chunks, overwrite);
      distinct[kernel_key(request.request)] = overwrite ? kernel.write.primitives : kernel.add.primitives;
    }
  }
  int count = 0;
  for (const auto& [key, primitives] : distinct) count += primitives;
  return count;
}

BatchCandidates::BatchCandidates(Graph graph, std::int64_t micro_batch, std::int64_t accumulation, const Paging& paging,
                                 const PlanRequest& request, const Machine& machine, Floor floor, NodeKernels& kernels)
    : graph_(std::move(graph)),
      micro_batch_(micro_batch),
      accumulation_(accumulation),
      paging_(paging),
      kernels_(&kernels),
      blocks_(find_blocks(graph_)) {
  list_options(request.recompute);
  const int chunks = request.loss_chunks.value_or(1);
  const Graph paged = apply_paging(graph_, blocks_, paging_);
  const auto simulate_choices = [&](const std::vector<BlockChoice>& choices, const std::vector<NodeReplay>& replays) {
    return simulate(apply_choices(paged, blocks_, choices, replays, paging_, accumulation), accumulation, chunks, request.saves,
                    kernels);
  };
  for (Option& option : options_) {
    const Simulation simulation = simulate_choices(std::vector<BlockChoice>(blocks_.size(), option.choice), {});
    profile(option, simulation);
    record_lanes(option.lanes, simulation, machine);
    if (option.choice.mode != BlockMode::keep) continue;
    find_chunks(request, simulation, machine);
    outside_ = total(paging_reserve(simulation.graph, paging_, machine));
    arena_bound_ = working_set_bound(simulation, Bytes{chunks_.back().scratch}, floor.enough);
    least_steps_ = simulation.timeline.steps.size();
    const auto simplest = std::min_element(chunks_.begin(), chunks_.end(),
                                           [](const auto& a, const auto& b) { return a.primitives < b.primitives; });
    least_primitives_ = count_primitives(simulation, chunks, machine.threads, /*loss=*/false) + simplest->primitives;
  }
  constexpr int kMostJoined = 8;
  const bool recomputes = request.recompute != RecomputePolicy::none;
  for (int joined = 2; floor.joins && recomputes && joined <= std::min<int>(kMostJoined, count() / 2); ++joined) {
    std::vector<BlockChoice> choices;
    for (int i = 0; i < count(); ++i) choices.push_back(i % joined == 0 ? BlockMode::pieces : BlockMode::joined);
    add_whole({std::move(choices), {}, {}}, machine, simulate_choices);
  }
  // Every node decided on by itself: without repeated blocks, and where memory is short. Deep models have enough blocks to mix.
  constexpr std::size_t kMostSteps = 1500;
  const bool few = least_steps_ <= kMostSteps;
  const bool wanted = request.recompute == RecomputePolicy::automatic && (count() <= 1 || (floor.joins && few));
  if (!wanted || paging_.parameters || paging_.accumulators) return;
  const std::vector<BlockChoice> keep(blocks_.size(), BlockMode::keep);
  const replays::GraphProblem problem = replays::problem_of(simulate_choices(keep, {}), chunks_.back().scratch);
  for (std::vector<NodeReplay>& replays : replays::schedules(problem)) {
    add_whole({keep, std::move(replays), {}}, machine, simulate_choices);
  }
}

template <class Simulate>
void BatchCandidates::add_whole(Whole whole, const Machine& machine, Simulate&& simulate) {
  const Simulation simulation = simulate(whole.choices, whole.replays);
  whole.profile = profile_whole(simulation);
  whole.profile.stall = costs_of(simulation, paging_, machine).micro_stall;
  wholes_.push_back(std::move(whole));
}

void BatchCandidates::list_options(RecomputePolicy policy) {
  constexpr std::size_t kMostBetween = 5, kMostWithDisk = 3;  // with a disk there are several times as many candidates
  options_.push_back({.choice = BlockMode::keep});
  if (policy == RecomputePolicy::none || blocks_.empty()) return;
  if (policy == RecomputePolicy::automatic) {
    // The first and the last block may have neighbours of another kind; those between are alike.
    for (BlockOption& some :
         block_options(graph_, blocks_[blocks_.size() / 2], *kernels_, paging_.active() ? kMostWithDisk : kMostBetween)) {
      options_.push_back({.choice = {BlockMode::cheap, std::move(some.again)}});
    }
  }
  first_allowed_ = policy == RecomputePolicy::all ? 1 : 0;
  options_.push_back({.choice = BlockMode::recompute});
  options_.push_back({.choice = BlockMode::pieces});
}

void BatchCandidates::profile(Option& option, const Simulation& simulation) {
  const Timeline& timeline = simulation.timeline;
  const std::vector<int> block_of = block_of_steps(simulation, blocks_);
  const LiveProfile steady = live_profile(simulation.lifetimes, timeline, Phase::steady);
  const int loss = find_loss_step(simulation);
  std::vector<BlockProfile>& profiles = option.profiles;
  profiles.assign(blocks_.size(), {});

  for (const Buffer& buffer : simulation.lifetimes.buffers) {
    if (buffer.persistent || !buffer.value.valid() || !lives(buffer, loss, Phase::steady) || buffer.begin >= loss) continue;
    const int block = block_of[static_cast<std::size_t>(buffer.begin)];
    if (block != kOutside) profiles[static_cast<std::size_t>(block)].saved += buffer.bytes.n;
  }
  std::vector<std::int64_t> before(blocks_.size() + 1, 0);
  for (std::size_t i = 0; i < blocks_.size(); ++i) before[i + 1] = before[i] + profiles[i].saved;

  const int first = timeline.micro.begin;
  const auto live_at = [&](int step) { return steady.bytes[static_cast<std::size_t>(step - first)].n; };
  int last_forward = first, first_backward = timeline.micro.end;
  for (int step = first; step < timeline.micro.end; ++step) {
    if (block_of[static_cast<std::size_t>(step)] == kOutside) continue;
    if (step < loss) last_forward = step;
    if (step > loss) first_backward = std::min(first_backward, step);
  }
  std::int64_t outside = 0, between = 0;
  for (const Phase phase : {Phase::load, Phase::evaluate, Phase::save, Phase::generate}) {
    outside = std::max(outside, live_profile(simulation.lifetimes, timeline, phase).peak.n);
  }
  for (int step = first; step < timeline.update.end; ++step) {
    const int block = block_of[static_cast<std::size_t>(step)];
    if (block != kOutside) {
      BlockProfile& profile = profiles[static_cast<std::size_t>(block)];
      profile.peak = std::max(profile.peak, live_at(step) - before[static_cast<std::size_t>(block)]);
      const Step& what = timeline.steps[static_cast<std::size_t>(step)];
      if (what.kind == Step::Kind::node && simulation.graph.nodes[what.node].clone_of.valid()) {
        profile.seconds += simulation.kernels[static_cast<std::size_t>(step)].add.seconds;
      }
    } else if (step == loss) {
      const BufferId scratch = simulation.lifetimes.scratch[static_cast<std::size_t>(step)];
      loss_base_ = live_at(step) - before.back() - (scratch.valid() ? simulation.lifetimes.buffers[scratch].bytes.n : 0);
    } else if (step > last_forward && step < first_backward) {
      between = std::max(between, live_at(step) - before.back());
    } else {
      outside = std::max(outside, live_at(step));
    }
  }
  outside_peak_ = std::max(outside_peak_, outside);
  between_peak_ = std::max(between_peak_, between);
}

void BatchCandidates::find_chunks(const PlanRequest& request, const Simulation& simulation, const Machine& machine) {
  const int loss = find_loss_step(simulation);
  const NodeId node = simulation.timeline.steps[static_cast<std::size_t>(loss)].node;
  const Costs costs = costs_of(simulation, paging_, machine);
  const bool write = accumulation_ == 1;
  base_seconds_ =
      static_cast<double>(accumulation_) * (costs.micro - seconds_of(simulation.kernels[static_cast<std::size_t>(loss)], write)) +
      costs.update + costs.update_stall;
  const LaneEvents simulated = LaneModel(simulation, paging_, machine).events_of(loss);
  const auto stall = [&](double seconds) {
    LaneEvents events = simulated;
    for (LaneEvent& event : events) event.kernels = seconds;
    LaneClock clock;
    clock.run(events);
    return clock.stall();
  };
  const double in_simulation = stall(seconds_of(simulation.kernels[static_cast<std::size_t>(loss)], write));
  const auto choice = [&](int chunks) {
    const auto [add, first] = kernels_->of(simulation.graph, node, chunks);
    const double seconds = write ? first.seconds : add.seconds;
    return ChunkChoice{chunks, align_up(std::max(add.scratch, first.scratch), kAlignment).n, seconds,
                       write ? first.primitives : std::max(add.primitives, first.primitives), stall(seconds) - in_simulation};
  };
  if (request.loss_chunks) {
    chunks_ = {choice(*request.loss_chunks)};
    return;
  }
  constexpr int kMostChunks = 1 << 14;
  for (int chunks = 1; chunks <= kMostChunks; chunks *= 2) {
    const ChunkChoice next = choice(chunks);
    if (!chunks_.empty() && next.scratch >= chunks_.back().scratch) continue;
    chunks_.push_back(next);
  }
}

BatchCandidates::MixtureProfile BatchCandidates::profile_whole(const Simulation& simulation) const {
  const Timeline& timeline = simulation.timeline;
  MixtureProfile profile;
  for (const Phase phase : {Phase::load, Phase::evaluate, Phase::save, Phase::generate}) {
    profile.peak = std::max(profile.peak, live_profile(simulation.lifetimes, timeline, phase).peak.n);
  }
  const LiveProfile steady = live_profile(simulation.lifetimes, timeline, Phase::steady);
  const int loss = find_loss_step(simulation);
  for (int step = timeline.micro.begin; step < timeline.update.end; ++step) {
    const std::int64_t live = steady.bytes[static_cast<std::size_t>(step - timeline.micro.begin)].n;
    const Step& what = timeline.steps[static_cast<std::size_t>(step)];
    if (step == loss) {
      const BufferId scratch = simulation.lifetimes.scratch[static_cast<std::size_t>(step)];
      profile.loss_base = live - (scratch.valid() ? simulation.lifetimes.buffers[scratch].bytes.n : 0);
    } else {
      profile.peak = std::max(profile.peak, live);
    }
    if (what.kind == Step::Kind::node && simulation.graph.nodes[what.node].clone_of.valid()) {
      profile.seconds += simulation.kernels[static_cast<std::size_t>(step)].add.seconds;
    }
  }
  return profile;
}

std::vector<const BatchCandidates::Option*> BatchCandidates::options_of(const Candidate& candidate) const {
  std::vector<const Option*> chosen;
  for (const Candidate::Run run : candidate.runs) chosen.insert(chosen.end(), run.blocks, &options_[run.option]);
  return chosen;
}

std::vector<BlockChoice> BatchCandidates::choices(const Candidate& candidate) const {
  if (candidate.whole >= 0) return wholes_[static_cast<std::size_t>(candidate.whole)].choices;
  std::vector<BlockChoice> choices;
  for (const Option* option : options_of(candidate)) choices.push_back(option->choice);
  return choices;
}

const std::vector<NodeReplay>& BatchCandidates::replays(const Candidate& candidate) const {
  static const std::vector<NodeReplay> kNone;
  return candidate.whole >= 0 ? wholes_[static_cast<std::size_t>(candidate.whole)].replays : kNone;
}

BatchCandidates::MixtureProfile BatchCandidates::profile_of(const Candidate& candidate) const {
  if (candidate.whole >= 0) return wholes_[static_cast<std::size_t>(candidate.whole)].profile;
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
  mixture.stall = stall_of(chosen);
  return mixture;
}

// What steps of a micro-step do on the lanes, by the blocks that they work for.
void BatchCandidates::record_lanes(OptionLanes& lanes, const Simulation& simulation, const Machine& machine) {
  if (!paging_.active()) return;
  const std::vector<int> block_of = block_of_steps(simulation, blocks_);
  const int loss = find_loss_step(simulation);
  const LaneModel model(simulation, paging_, machine);
  const PerValue<int> block_of_value = blocks_of_values(graph_, blocks_);
  lanes.forward.assign(blocks_.size(), std::vector<PassPart>(1));
  lanes.backward.assign(blocks_.size(), std::vector<PassPart>(1));
  lanes.fetched_forward.resize(blocks_.size());
  lanes.fetched_backward.resize(blocks_.size());
  const auto fetches_for = [&](int step) {
    const Step& what = simulation.timeline.steps[static_cast<std::size_t>(step)];
    if (what.kind != Step::Kind::node || simulation.graph.nodes[what.node].op->transfer != Transfer::fetch) return kOutside;
    return block_of_value[origin_of(simulation.graph, simulation.graph.nodes[what.node].inputs[0])];
  };
  bool begun = false;
  int backward_left = static_cast<int>(std::count_if(block_of.begin() + loss, block_of.begin() + simulation.timeline.micro.end,
                                                     [](int block) { return block != kOutside; }));
  for (int step = simulation.timeline.micro.begin; step < simulation.timeline.micro.end; ++step) {
    const int block = block_of[static_cast<std::size_t>(step)];
    if (block != kOutside) begun = true;
    if (block != kOutside && step > loss) --backward_left;
    if (block == kOutside) {
      append(!begun ? lanes.before : backward_left > 0 ? lanes.between : lanes.after, model.events_of(step));
      continue;
    }
    std::vector<PassPart>& pass = (step < loss ? lanes.forward : lanes.backward)[static_cast<std::size_t>(block)];
    const int other = fetches_for(step);
    if (other == kOutside || other == block) {
      append(pass.back().events, model.events_of(step));
      continue;
    }
    if (pass.size() < 2 || pass[pass.size() - 2].then_fetches != other || !pass.back().events.empty()) {
      pass.back().then_fetches = other;
      pass.emplace_back();
    }
    append((step < loss ? lanes.fetched_forward : lanes.fetched_backward)[static_cast<std::size_t>(other)],
           model.events_of(step));
  }
}

// The chunks of the loss make no difference: nothing of a block is on its way beside it.
double BatchCandidates::stall_of(const std::vector<const Option*>& chosen) const {
  if (!paging_.active()) return 0;
  const OptionLanes& outer = options_.front().lanes;
  LaneClock clock;
  clock.run(outer.before);
  const auto run = [&](const std::vector<PassPart>& pass, std::vector<LaneEvents> OptionLanes::*fetched) {
    for (const PassPart& part : pass) {
      clock.run(part.events);
      if (part.then_fetches == kOutside) continue;
      const auto other = static_cast<std::size_t>(part.then_fetches);
      clock.run((chosen[other]->lanes.*fetched)[other]);
    }
  };
  for (std::size_t i = 0; i < chosen.size(); ++i) run(chosen[i]->lanes.forward[i], &OptionLanes::fetched_forward);
  clock.run(outer.between);
  for (std::size_t i = chosen.size(); i-- > 0;) run(chosen[i]->lanes.backward[i], &OptionLanes::fetched_backward);
  clock.run(outer.after);
  return clock.stall();
}

// With each number of loss chunks.
void BatchCandidates::add_candidates(Candidate candidate, std::vector<Candidate>& to) const {
  const MixtureProfile mixture = profile_of(candidate);
  for (const ChunkChoice& chunk : chunks_) {
    candidate.loss_chunks = chunk.chunks;
    candidate.outside = outside_;
    candidate.live = Bytes{std::max(mixture.peak, mixture.loss_base + chunk.scratch)};
    candidate.update_seconds =
        base_seconds_ + static_cast<double>(accumulation_) * (mixture.seconds + chunk.seconds + mixture.stall + chunk.stall);
    to.push_back(candidate);
  }
}

// Blocks near the input hold their values longest, so they are the ones that keep less: for equal blocks no other arrangement of
// the same counts has a lower peak. Those near the loss run while most is held, so they are the ones that go in pieces.
std::vector<Candidate> BatchCandidates::all(std::size_t batch_index) const {
  std::vector<Candidate> candidates;
  const auto add = [&](std::array<Candidate::Run, 3> runs) { add_candidates({.batch = batch_index, .runs = runs}, candidates); };
  const auto blocks = [](std::size_t number) { return static_cast<std::uint16_t>(number); };
  const auto number = [](std::size_t option) { return static_cast<std::uint16_t>(option); };
  const bool in_pieces = options_.back().choice.mode == BlockMode::pieces;
  const std::size_t end = options_.size() - (in_pieces ? 1 : 0);  // of those that do not go in pieces
  for (std::size_t option = first_allowed_; option < end; ++option) {
    add({{{number(option), blocks(blocks_.size())}}});
    for (std::size_t later = first_allowed_; later < option; ++later) {
      for (std::size_t i = 1; i < blocks_.size(); ++i) {
        add({{{number(option), blocks(i)}, {number(later), blocks(blocks_.size() - i)}}});
      }
    }
  }
  for (std::size_t pieces = 1; in_pieces && pieces <= blocks_.size(); ++pieces) {
    const Candidate::Run first{number(end - 1), blocks(blocks_.size() - pieces)};
    add({{first, {number(end), blocks(pieces)}}});
    for (std::size_t last = std::max<std::size_t>(first_allowed_, 1); first.blocks > 0 && last + 1 < end; ++last) {
      add({{{first.option, blocks(first.blocks - 1U)}, {number(end), blocks(pieces)}, {number(last), 1}}});
    }
  }
  for (std::size_t i = 0; i < wholes_.size(); ++i) {
    add_candidates({.batch = batch_index, .runs = {}, .whole = static_cast<int>(i)}, candidates);
  }
  return candidates;
}

}  // namespace plimsoll
