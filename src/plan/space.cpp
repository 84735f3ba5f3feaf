#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "plan/candidates.h"
#include "plan/layout/place.h"
#include "plan/plan.h"

namespace plimsoll {
namespace {

constexpr double kKneeSlowdown = 1.03;
// Nodes of the canonical layout search per candidate; counted, so that a plan never depends on the clock.
constexpr std::int64_t kLayoutWork = 200'000;

std::vector<std::int64_t> micro_batches(const PlanRequest& request) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t b = 1; b <= request.effective_batch; ++b) {
    if (request.effective_batch % b != 0) continue;
    if (!request.micro_batch || *request.micro_batch == b) sizes.push_back(b);
  }
  ensure(!sizes.empty(), "planner", "the micro-batch does not divide the effective batch");
  return sizes;
}

// Persistent buffers lie at the bottom, in the order of their values, at the same place in every phase. Accumulators that live
// through the whole window come right above.
struct Placed {
  std::vector<Bytes> offsets;
  Bytes height, load;
};

Placed place_buffers(const Lifetimes& lifetimes, const Timeline& timeline) {
  layout::Problem problem;
  problem.alignment = kAlignment.n;
  std::int64_t bottom = 0;
  const auto pin = [&](const Buffer& buffer) {
    const std::int64_t offset = bottom;
    bottom += buffer.bytes.n;
    return offset;
  };
  const auto through_window = [&](const Buffer& buffer) {
    return timeline.accumulation > 1 && buffer.begin == timeline.micro.begin && buffer.owner == name(Role::accumulator);
  };
  std::vector<std::int64_t> pinned(lifetimes.buffers.size(), -1);
  for (std::size_t i = 0; i < pinned.size(); ++i) {
    if (lifetimes.buffers[BufferId{i}].persistent) pinned[i] = pin(lifetimes.buffers[BufferId{i}]);
  }
  for (std::size_t i = 0; i < pinned.size(); ++i) {
    if (through_window(lifetimes.buffers[BufferId{i}])) pinned[i] = pin(lifetimes.buffers[BufferId{i}]);
  }
  for (std::size_t i = 0; i < pinned.size(); ++i) {
    const Buffer& buffer = lifetimes.buffers[BufferId{i}];
    const bool used = buffer.begin < buffer.end;
    problem.buffers.push_back({used ? buffer.begin : 0, used ? buffer.end : 0, buffer.bytes.n, pinned[i]});
  }
  const layout::Placement placement = layout::place(problem, kLayoutWork);
  Placed placed;
  for (const std::int64_t offset : placement.solution.offsets) placed.offsets.push_back(Bytes{offset});
  placed.height = Bytes{placement.solution.height};
  placed.load = Bytes{layout::load(problem)};
  return placed;
}

std::string owner_line(const Graph& graph, const Buffer& buffer, const Timeline& timeline) {
  if (!buffer.value.valid()) {
    const Step& step = timeline.steps[static_cast<std::size_t>(buffer.begin)];
    return step.kind == Step::Kind::node ? graph.nodes[step.node].line : std::string();
  }
  const Value& value = graph.values[buffer.value];
  return value.producer.valid() ? graph.nodes[value.producer].line : value.name;
}

std::vector<OwnerBytes> owners_at(const Simulation& simulation, Phase phase, int step) {
  std::map<std::string, OwnerBytes> by_owner;
  std::map<std::string, Bytes> largest;
  for (const Buffer& buffer : simulation.lifetimes.buffers) {
    if (!lives(buffer, step, phase)) continue;
    OwnerBytes& owner = by_owner[buffer.owner];
    owner.owner = buffer.owner;
    owner.bytes += buffer.bytes;
    if (buffer.bytes > largest[buffer.owner]) {
      largest[buffer.owner] = buffer.bytes;
      owner.line = owner_line(simulation.graph, buffer, simulation.timeline);
    }
  }
  std::vector<OwnerBytes> owners;
  for (auto& [name, owner] : by_owner) owners.push_back(std::move(owner));
  std::stable_sort(owners.begin(), owners.end(), [](const OwnerBytes& a, const OwnerBytes& b) { return a.bytes > b.bytes; });
  return owners;
}

std::vector<PhasePlan> phases_of(const Simulation& simulation, const std::vector<Bytes>& offsets) {
  std::vector<PhasePlan> phases;
  for (const Phase phase : kPhases) {
    const StepRange range = simulation.timeline.of(phase);
    if (range.empty()) continue;
    const LiveProfile live = live_profile(simulation.lifetimes, simulation.timeline, phase);
    PhasePlan plan{phase, {}, live.peak, owners_at(simulation, phase, live.peak_step)};
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      const Buffer& buffer = simulation.lifetimes.buffers[BufferId{i}];
      const int begin = phase == Phase::first ? buffer.first_begin : buffer.begin;
      if (begin < range.end && range.begin < buffer.end) plan.arena = std::max(plan.arena, offsets[i] + buffer.bytes);
    }
    phases.push_back(std::move(plan));
  }
  return phases;
}

// Pieces of generated code: kernels that differ in implementation and types, each counted once.
int count_primitives(const Simulation& simulation) {
  std::map<std::string, int> distinct;
  for (const StepKernel& kernel : simulation.kernels) {
    for (const KernelChoice* choice : {&kernel.add, &kernel.write}) {
      if (choice->primitives > 0) distinct[choice->implementation] = choice->primitives;
    }
  }
  int count = 0;
  for (const auto& [implementation, primitives] : distinct) count += primitives;
  return count;
}

std::string hash_plan(const Plan& plan) {
  Hasher hasher;
  hasher.add(plan.graph_hash).add(plan.machine_hash);
  hasher.add(fmt::format("{} {} {} {}", plan.decisions.micro_batch, plan.decisions.accumulation, plan.decisions.loss_chunks,
                         plan.threads));
  for (const BlockDecision& block : plan.decisions.blocks) hasher.add(name(block.mode));
  for (const Bytes offset : plan.offsets) hasher.add(std::to_string(offset.n));
  for (const StepKernel& kernel : plan.kernels) hasher.add(kernel.add.implementation).add(kernel.write.implementation);
  return hasher.hex();
}

}  // namespace

struct PlanSpace::State {
  PlanRequest request;
  Machine machine;
  KernelCatalogue& catalogue;
  std::vector<BatchCandidates> batches;
  std::vector<Candidate> ladder;
  std::map<std::size_t, Plan> plans;  // by rung of the ladder
  std::optional<Bytes> floor, knee, ceiling;

  State(PlanRequest request, Machine machine, KernelCatalogue& catalogue)
      : request(std::move(request)), machine(std::move(machine)), catalogue(catalogue) {}

  void climb();
  Plan build(const PlanDecisions& decisions, const BatchCandidates& batch);
  const Plan& rung(std::size_t index);
  Bytes least_reserve() const { return total(reserve_items(machine, 0, 0, Bytes{0})); }
  Bytes find_floor();
};

PlanSpace::PlanSpace(GraphSource source, PlanRequest request, Machine machine, KernelCatalogue& catalogue)
    : state_(std::make_unique<State>(std::move(request), std::move(machine), catalogue)) {
  for (const std::int64_t micro : micro_batches(state_->request)) {
    state_->batches.emplace_back(source(micro), micro, state_->request.effective_batch / micro, state_->request,
                                 state_->machine.threads, catalogue);
  }
  state_->climb();
}

PlanSpace::~PlanSpace() = default;
PlanSpace::PlanSpace(PlanSpace&&) noexcept = default;

// The ladder: candidates by time, each holding fewer live bytes than all faster ones. It does not depend on any budget.
void PlanSpace::State::climb() {
  std::vector<Candidate> all;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const std::vector<Candidate> some = batches[i].all(i);
    all.insert(all.end(), some.begin(), some.end());
  }
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return std::pair(a.update_seconds, a.live) < std::pair(b.update_seconds, b.live);
  });
  for (const Candidate& candidate : all) {
    if (ladder.empty() || candidate.live < ladder.back().live) ladder.push_back(candidate);
  }
}

Plan PlanSpace::State::build(const PlanDecisions& decisions, const BatchCandidates& batch) {
  std::vector<BlockMode> modes;
  for (const BlockDecision& block : decisions.blocks) modes.push_back(block.mode);
  Simulation simulation = simulate(apply_recompute(batch.graph(), batch.blocks(), modes), batch.accumulation(),
                                   decisions.loss_chunks, request.saves, machine.threads, catalogue);
  Placed placed = place_buffers(simulation.lifetimes, simulation.timeline);
  const Costs costs = costs_of(simulation);
  Plan plan;
  plan.decisions = decisions;
  plan.effective_batch = request.effective_batch;
  plan.units_per_update = request.effective_batch * request.units_per_sample;
  plan.threads = machine.threads;
  plan.phases = phases_of(simulation, placed.offsets);
  plan.arena = placed.height;
  for (const PhasePlan& phase : plan.phases) plan.live = std::max(plan.live, phase.live);
  plan.load = placed.load;
  plan.reserve = reserve_items(machine, count_primitives(simulation), simulation.timeline.steps.size(), plan.arena);
  plan.process = plan.arena + total(plan.reserve);
  plan.micro_seconds = costs.micro;
  plan.update_seconds = static_cast<double>(batch.accumulation()) * costs.micro + costs.update;
  plan.costs_measured = costs.measured;
  plan.costs_recorded = costs.recorded;
  plan.costs_bound = costs.bound;
  plan.graph_hash = graph_hash(batch.graph());
  plan.machine_hash = machine.hash;
  plan.graph = std::move(simulation.graph);
  plan.timeline = std::move(simulation.timeline);
  plan.lifetimes = std::move(simulation.lifetimes);
  plan.kernels = std::move(simulation.kernels);
  plan.offsets = std::move(placed.offsets);
  plan.plan_hash = hash_plan(plan);
  return plan;
}

const Plan& PlanSpace::State::rung(std::size_t index) {
  const auto found = plans.find(index);
  if (found != plans.end()) return found->second;
  const Candidate& candidate = ladder[index];
  const BatchCandidates& batch = batches[candidate.batch];
  PlanDecisions decisions{batch.micro_batch(), batch.accumulation(), candidate.loss_chunks, {}};
  const std::vector<BlockMode> modes = batch.modes(candidate);
  for (std::size_t i = 0; i < modes.size(); ++i) decisions.blocks.push_back({batch.blocks()[i].name, modes[i]});
  Plan plan = build(decisions, batch);
  ensure(plan.live == candidate.live, "planner", "the simulator and the composed profile disagree about live bytes");
  return plans.emplace(index, std::move(plan)).first->second;
}

Bytes PlanSpace::State::find_floor() {
  Bytes best{std::numeric_limits<std::int64_t>::max()};
  for (std::size_t i = ladder.size(); i-- > 0;) {
    if (ladder[i].live + least_reserve() >= best) break;
    best = std::min(best, rung(i).process);
  }
  return best;
}

Bytes PlanSpace::floor() {
  if (!state_->floor) state_->floor = state_->find_floor();
  return *state_->floor;
}

Bytes PlanSpace::floor_bound() {
  Bytes bound{std::numeric_limits<std::int64_t>::max()};
  for (const BatchCandidates& batch : state_->batches) bound = std::min(bound, batch.arena_bound());
  // Every plan needs at least what the floor plan's reserve is made of, without its clones.
  return bound + state_->least_reserve();
}

Bytes PlanSpace::ceiling() {
  if (!state_->ceiling) state_->ceiling = state_->rung(0).process;
  return *state_->ceiling;
}

Bytes PlanSpace::knee() {
  if (state_->knee) return *state_->knee;
  const auto& ladder = state_->ladder;
  std::size_t knee = 0;
  for (std::size_t i = 0; i < ladder.size(); ++i) {
    if (ladder[i].update_seconds <= kKneeSlowdown * ladder[0].update_seconds) knee = i;
  }
  state_->knee = state_->rung(knee).process;
  return *state_->knee;
}

const std::vector<Candidate>& PlanSpace::ladder() const { return state_->ladder; }

std::variant<Plan, Infeasible> PlanSpace::best(const Budget& budget) {
  const Bytes memory = budget.memory.value_or(ceiling());
  const Bytes lowest = floor();
  for (std::size_t i = 0; memory >= lowest && i < state_->ladder.size(); ++i) {
    if (state_->ladder[i].live + state_->least_reserve() > memory) continue;
    if (state_->rung(i).process > memory) continue;
    Plan plan = state_->rung(i);
    plan.floor = lowest;
    plan.floor_bound = floor_bound();
    plan.knee = knee();
    plan.ceiling = ceiling();
    return plan;
  }
  Infeasible infeasible{memory, lowest, floor_bound(), Phase::steady, {}};
  const auto smallest = std::min_element(state_->plans.begin(), state_->plans.end(), [](const auto& a, const auto& b) {
    return a.second.process < b.second.process;
  });
  const auto peak = std::max_element(smallest->second.phases.begin(), smallest->second.phases.end(),
                                     [](const PhasePlan& a, const PhasePlan& b) { return a.live < b.live; });
  infeasible.phase = peak->phase;
  infeasible.owners = peak->owners;
  for (const ReserveItem& item : smallest->second.reserve) infeasible.owners.push_back({item.name, item.bytes, {}});
  return infeasible;
}

Plan PlanSpace::replay(const PlanDecisions& decisions) {
  for (const BatchCandidates& batch : state_->batches) {
    if (batch.micro_batch() != decisions.micro_batch) continue;
    if (batch.blocks().size() != decisions.blocks.size()) break;
    return state_->build(decisions, batch);
  }
  throw config_error("E-PLAN-REPLAY", "plan", "the plan was made for another model or batch",
                     "a plan of this configuration", {"plimsoll plan CONFIG --out plan.json"});
}

}  // namespace plimsoll
