#include "plan/build_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/hash.h"
#include "plan/costs.h"
#include "plan/layout/judge.h"
#include "plan/layout/place.h"
#include "plan/passes/paging.h"
#include "plan/simulation.h"
#include "plan/tiers/pinned.h"

namespace plimsoll {
namespace {

// Layouts within this factor of the load are taken as they are: a search would spend seconds on a gain of at most 0.1 %.
constexpr double kGoodEnough = 1.001;

struct Placed {
  std::vector<Bytes> offsets;
  Bytes load;
};

// Persistent buffers lie at the bottom in the order of their values, at the same place in every phase. Accumulators that live
// through the whole window lie right above them.
layout::Problem layout_problem(const Lifetimes& lifetimes, const Timeline& timeline) {
  layout::Problem problem;
  problem.alignment = kAlignment.n;
  std::int64_t bottom = 0;
  std::vector<std::int64_t> pinned(lifetimes.buffers.size(), -1);
  const auto pin = [&](auto&& lies_here) {
    for (std::size_t i = 0; i < pinned.size(); ++i) {
      const Buffer& buffer = lifetimes.buffers[BufferId{i}];
      if (lies_here(buffer)) pinned[i] = std::exchange(bottom, bottom + buffer.bytes.n);
    }
  };
  pin([](const Buffer& buffer) { return buffer.persistent; });
  pin([&](const Buffer& buffer) {
    return timeline.rounds > 1 && buffer.begin == timeline.window && buffer.owner == name(Role::accumulator);
  });
  for (std::size_t i = 0; i < pinned.size(); ++i) {
    const Buffer& buffer = lifetimes.buffers[BufferId{i}];
    const bool used = buffer.begin < buffer.end;
    problem.buffers.push_back({used ? buffer.begin : 0, used ? buffer.end : 0, buffer.bytes.n, pinned[i]});
  }
  return problem;
}

// The judge, which shares nothing with the solver, has to accept given offsets.
Placed place_buffers(const Lifetimes& lifetimes, const Timeline& timeline, const std::vector<Bytes>* given) {
  const layout::Problem problem = layout_problem(lifetimes, timeline);
  layout::Solution solution;
  if (given == nullptr) {
    const auto enough = static_cast<std::int64_t>(kGoodEnough * static_cast<double>(layout::lower_bound(problem)));
    solution = layout::place(problem, enough).solution;
  } else {
    for (const Bytes offset : *given) solution.offsets.push_back(offset.n);
    if (solution.offsets.size() == problem.buffers.size()) solution.height = layout::height_of(problem, solution.offsets);
  }
  const std::vector<std::string> violations = layout::judge(problem, solution);
  if (!violations.empty()) {
    if (given == nullptr) throw internal_error("layout", violations.front());
    throw config_error("E-PLAN-REPLAY", "plan", "its addresses are not valid: " + violations.front(),
                       "a plan of this configuration, unchanged",
                       {Remedy::of_command("plan CONFIG", {{"command.out", "plan.json"}})});
  }
  Placed placed;
  for (const std::int64_t offset : solution.offsets) placed.offsets.push_back(Bytes{offset});
  placed.load = Bytes{layout::load(problem)};
  return placed;
}

Symbol owner_line(const Graph& graph, const Buffer& buffer, const Timeline& timeline) {
  if (!buffer.value.valid()) {
    const Step& step = timeline.steps[static_cast<std::size_t>(buffer.begin)];
    return step.kind == Step::Kind::node ? graph.nodes[step.node].line : Symbol();
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
  for (const Phase phase : simulation.timeline.phases()) {
    const StepRange range = simulation.timeline.of(phase);
    if (range.empty()) continue;
    const LiveProfile live = live_profile(simulation.lifetimes, simulation.timeline, phase);
    PhasePlan plan{
        phase, std::string(name(simulation.graph, phase)), {}, live.peak, owners_at(simulation, phase, live.peak_step)};
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      const Buffer& buffer = simulation.lifetimes.buffers[BufferId{i}];
      const bool there = buffer.begin_in(phase) < range.end && range.begin < buffer.end;
      if (there) plan.arena = std::max(plan.arena, offsets[i] + buffer.bytes);
    }
    phases.push_back(std::move(plan));
  }
  return phases;
}

std::string hash_plan(const Plan& plan) {
  Hasher hasher;
  hasher.add(plan.graph_hash).add(plan.machine_hash);
  hasher.add(fmt::format("{} {} {} {} {}", plan.decisions.micro_batch, plan.decisions.accumulation, plan.decisions.group,
                         plan.decisions.loss_chunks, plan.threads));
  if (plan.decisions.residency.active()) {
    hasher.add(fmt::format("pages {} {}", plan.decisions.residency.pages.elements, plan.decisions.residency.pages.slots));
    if (plan.decisions.residency.parameters.beyond) hasher.add("parameters");
    if (plan.decisions.residency.accumulators.beyond) hasher.add("accumulators");
    hasher.add(fmt::format("resident {}", plan.decisions.residency.kept()));
    if (plan.decisions.residency.tables.beyond) hasher.add("tables");
    if (plan.decisions.residency.by_matrix) hasher.add("narrow");
    hasher.add(fmt::format("activations {}", plan.decisions.residency.inputs));
    if (plan.decisions.residency.near != Residency::kAllNear) hasher.add(fmt::format("near {}", plan.decisions.residency.near.n));
  }
  for (const NodeReplay& replay : plan.decisions.replays) {
    hasher.add(fmt::format("replay {} {}", replay.node.index, replay.before.index));
  }
  for (const Bytes offset : plan.offsets) hasher.add(std::to_string(offset.n));
  for (const StepKernel& kernel : plan.kernels) hasher.add(kernel.add.implementation).add(kernel.write.implementation);
  return hasher.hex();
}

// The numbers of nodes in the graphs of a GPU.
struct Launches {
  std::int64_t kernels = 0, copies = 0;
};

// An upper bound for one node: kernels for each range, and copies of streamed values.
Launches launches_of(const Graph& graph, const Node& node, const StepKernel& kernel, std::int64_t page) {
  const std::int64_t kernels = std::max(kernel.add.launches, kernel.write.launches);
  const auto pieces = [&](ValueId value, std::int64_t each) { return ceil_div(graph.values[value].type.shape.elements(), each); };
  if (node.op->transfer != Transfer::none) return {0, pieces(node.inputs[0], page)};
  if (!node.pages.valid()) return {kernels, 0};
  const RangeRule rule = ranges_of(graph, node);
  const std::int64_t ranges = rule.passes * pieces(node.inputs[rule.inputs.front()], range_elements(graph, node, page));
  return {ranges * kernels, ranges * static_cast<std::int64_t>(2 * streamed_inputs(graph, node).size())};
}

// A GPU with a disk keeps no graphs, because its transfers wait on the host.
Launches kept_launches(const Plan& plan, const Simulation& simulation, const Machine& machine) {
  if (machine.reserve.per_launch.n == 0 || plan.stored[disk_of(machine)].n > 0) return {};
  const Timeline& timeline = simulation.timeline;
  const Residency& residency = plan.decisions.residency;
  const std::int64_t page = residency.active() ? page_elements(simulation.graph, residency) : 1;
  Launches sum;
  for (std::size_t i = 0; i < timeline.steps.size(); ++i) {
    const Step& step = timeline.steps[i];
    if (step.kind != Step::Kind::node) continue;
    const Forms forms = forms_of(simulation.graph, step.section, timeline.rounds);
    const int count = static_cast<int>(forms.first) + static_cast<int>(forms.later);
    const Launches of_node = launches_of(simulation.graph, simulation.graph.nodes[step.node], simulation.kernels[i], page);
    sum.kernels += count * of_node.kernels;
    sum.copies += count * of_node.copies;
  }
  return sum;
}

// Counts the bytes on tiers past the first and the bytes outside the arenas.
void count_reserves(Plan& plan, const Simulation& simulation, const Machine& machine) {
  const Residency& residency = plan.decisions.residency;
  plan.stored = stored_layout(simulation.graph).ends;
  const Launches launches = kept_launches(plan, simulation, machine);
  ReserveCounts counts{.primitives = count_primitives(simulation, plan.decisions.loss_chunks, machine.threads),
                       .steps = static_cast<std::int64_t>(simulation.timeline.steps.size()),
                       .launches = launches.kernels,  // a copy takes almost no memory of a GPU
                       .answers = plan.decisions.answers.heap};
  const bool host = has_host(machine);
  const Bytes reading = simulation.graph.section_order(Section::micro).empty() ? Bytes{} : kReadBack;
  if (!host) counts.encoding = encoding_bytes(simulation.graph), counts.reading = reading;
  plan.reserve = reserve_items(machine.reserve, counts, plan.arena);
  std::ranges::move(paging_reserve(simulation.graph, residency, machine, 0), std::back_inserter(plan.reserve));
  plan.process = plan.arena + total(plan.reserve);
  if (!host) return;
  counts.encoding = encoding_bytes(simulation.graph), counts.reading = reading;
  counts.launches += launches.copies;
  const std::size_t host_tier = tier_of(machine.tiers, TierKind::host);
  plan.host_reserve = reserve_items(machine.host_reserve, counts, plan.stored[host_tier]);
  std::ranges::move(paging_reserve(simulation.graph, residency, machine, host_tier), std::back_inserter(plan.host_reserve));
  if (machine.backend == Backend::cuda) {
    plan.host_reserve.push_back({"pinned: fed and fetched", pinned_bytes(simulation.graph, simulation.timeline), "counted"});
  }
  plan.host = plan.stored[host_tier] + total(plan.host_reserve);
}

}  // namespace

Plan build_plan(const Graph& graph, const std::vector<Unit>& units, const PlanDecisions& decisions, const PlanRequest& request,
                const Machine& machine, KernelCatalogue& catalogue, const std::vector<Bytes>* offsets) {
  NodeKernels kernels(machine.threads, catalogue);
  return build_plan(graph, units, decisions, request, machine, kernels, offsets);
}

Plan build_plan(const Graph& graph, const std::vector<Unit>& units, const PlanDecisions& decisions, const PlanRequest& request,
                const Machine& machine, NodeKernels& kernels, const std::vector<Bytes>* offsets) {
  Simulation simulation = simulate(apply_decisions(graph, units, decisions.replays, decisions.residency, decisions.window()),
                                   decisions.window().rounds(), decisions.loss_chunks, request.saves, kernels);
  Placed placed = place_buffers(simulation.lifetimes, simulation.timeline, offsets);
  const Costs costs = costs_of(simulation, decisions.residency, machine);
  Plan plan;
  plan.decisions = decisions;
  plan.units = describe_units(graph, units, decisions.replays);
  plan.effective_batch = request.effective_batch;
  plan.ragged = request.ragged;
  plan.units_per_update = request.units_per_update();
  plan.threads = machine.threads;
  plan.phases = phases_of(simulation, placed.offsets);
  for (const PhasePlan& phase : plan.phases) {
    plan.arena = std::max(plan.arena, phase.arena);
    plan.live = std::max(plan.live, phase.live);
  }
  plan.load = placed.load;
  count_reserves(plan, simulation, machine);
  if (decisions.residency.active()) plan.transfers = transfers_of(machine);
  plan.tiers = machine.tiers;
  const auto micro_steps = static_cast<double>(decisions.window().rounds());
  plan.stall_seconds = micro_steps * costs.micro_stall + costs.update_stall;
  plan.lanes.kernels = micro_steps * costs.micro_lanes.kernels + costs.update_lanes.kernels;
  for (std::size_t i = 0; i < find_ways(machine).links.size(); ++i) {
    plan.lanes.in[i] = micro_steps * costs.micro_lanes.in[i] + costs.update_lanes.in[i];
    plan.lanes.out[i] = micro_steps * costs.micro_lanes.out[i] + costs.update_lanes.out[i];
  }
  for (PhasePlan& phase : plan.phases) {
    if (phase.phase < Phase::forward || phase.phase == Phase::save) continue;
    phase.seconds = seconds_of(simulation, decisions.residency, machine, simulation.timeline.of(phase.phase));
  }
  plan.micro_seconds = costs.micro + costs.micro_stall;
  plan.update_seconds = micro_steps * costs.micro + costs.update + plan.stall_seconds;
  plan.costs_measured = costs.measured;
  plan.costs_recorded = costs.recorded;
  plan.costs_bound = costs.bound;
  plan.graph_hash = graph_hash(graph);
  plan.machine_hash = machine.hash;
  plan.graph = std::move(simulation.graph);
  plan.timeline = std::move(simulation.timeline);
  plan.lifetimes = std::move(simulation.lifetimes);
  plan.kernels = std::move(simulation.kernels);
  plan.offsets = std::move(placed.offsets);
  plan.plan_hash = hash_plan(plan);
  return plan;
}

}  // namespace plimsoll
