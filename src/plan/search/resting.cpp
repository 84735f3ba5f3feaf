#include "plan/search/resting.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "base/disk_folder.h"
#include "base/error.h"
#include "graph/exchange.h"
#include "plan/passes/paging.h"
#include "plan/simulation.h"
#include "plan/tiers/pinned.h"

namespace plimsoll {

bool wants_disk(const PlanRequest& request) {
  const RestPolicy policies[] = {request.optimizer_state, request.parameters, request.gradients, request.activations};
  return std::any_of(std::begin(policies), std::end(policies), [](RestPolicy policy) { return policy == RestPolicy::disk; });
}

bool limits_host(const PlanRequest& request, const Machine& machine) {
  return has_host(machine) && !request.beyond.empty() && request.beyond.front().n > 0;
}

namespace {

bool allows(RestPolicy policy, bool on_disk) {
  return policy == RestPolicy::automatic || (policy == RestPolicy::disk) == on_disk;
}

// Larger graphs of groups take too long to search.
constexpr std::size_t kMostNodes = 6000;

bool updates_early(const BatchModel& model, std::int64_t rounds, bool saves) {
  const Timeline timeline = make_timeline(model.graph, rounds, saves);
  return timeline.early_updates || !timeline.trains();
}

bool has_tables(const Graph& graph, const std::vector<Unit>& units) {
  const auto stored = [&](bool tables) {
    return stored_layout(apply_paging(graph, units,
                                      {.pages = {kLargePage, kPageSlots},
                                       .optimizer_state = kBeyond,
                                       .parameters = kBeyond,
                                       .accumulators = kBeyond,
                                       .tables = {.beyond = tables}}))
        .total();
  };
  return stored(true) > stored(false);
}

}  // namespace

Resting::Resting(BatchModel& model, bool smallest, const PlanRequest& request, const Machine& machine)
    : model_(&model),
      request_(&request),
      machine_(&machine),
      smallest_(smallest),
      early_(updates_early(model, model.accumulation, request.saves)),
      may_group_(!request.ragged && may_group(model.graph, model.units)),
      group_ends_(may_group_ && updates_early(model, 1, request.saves)),
      room_(room_of_host()) {}

// Candidates by rising bytes on other tiers, without regard to room. Large pages are for speed. Narrow passes and small pages are
// for little memory, so only the smallest micro-batch has them.
std::vector<Residency> Resting::listed(bool early, bool tables) const {
  std::vector<Residency> list;
  for (const bool accumulators : {false, true}) {
    for (const bool parameters : {false, true}) {
      if (!allows(request_->parameters, parameters) || !allows(request_->gradients, accumulators)) continue;
      // Accumulators without a setting follow the parameters. They stay if an update ends them within the backward pass.
      const bool open = request_->gradients == RestPolicy::automatic;
      if (open && accumulators && (early || !parameters)) continue;
      list.push_back({.pages = {kLargePage, kPageSlots},
                      .optimizer_state = kBeyond,
                      .parameters = {.beyond = parameters},
                      .accumulators = {.beyond = accumulators}});
    }
  }
  if (list.empty()) return list;
  Residency most = list.back();
  if (tables && most.parameters.beyond && allows(request_->gradients, true)) {
    most.tables = kBeyond;
    list.push_back(most);
  }
  if (!smallest_) return list;
  most.by_matrix = most.parameters.beyond;
  if (most.tables.beyond) list.push_back(most);
  most.pages.elements = kSmallPage;
  list.push_back(most);
  return list;
}

// True if some blocks may keep values that leave memory for the others: with large pages, which are for speed, and if the
// request leaves the choice to the planner.
bool Resting::may_divide(const Residency& residency) const {
  if (residency.tables.beyond || residency.by_matrix || residency.pages.elements != kLargePage) return false;
  if (!residency.parameters.beyond) return !residency.accumulators.beyond && request_->optimizer_state == RestPolicy::automatic;
  const bool gradients = residency.accumulators.beyond || early_ || group_ends_ || request_->gradients != RestPolicy::automatic;
  return request_->parameters == RestPolicy::automatic && gradients;
}

// The fewest kept blocks for which the tiers have room, and levels from there to all blocks: quarters, or each number of blocks
// for a graph without training, which has no other choices.
std::vector<Resting::Beside> Resting::levels_of(Residency residency) const {
  const int most_levels = model_->trains ? 4 : model_->blocks;
  std::optional<Beside> most = beside_process(residency);
  const int all = most && may_divide(residency) ? model_->blocks : 0;
  while (most && !most->has_room && residency.kept() + 1 < all) {
    residency.keep(residency.kept() + 1);
    most = beside_process(residency);
  }
  const int few = residency.kept(), levels = std::min(most_levels, all - few);
  std::vector<Beside> list;
  for (int level = levels - 1; level > 0; --level) {
    residency.keep(few + (all - few) * level / levels);
    if (const std::optional<Beside> beside = beside_process(residency)) list.push_back(*beside);
  }
  if (most) list.push_back(*most);
  return list;
}

// Bytes of the host process for each micro-batch of a group, fed values included. There are up to four times the steps of the
// graph, since all may run again and parameters, accumulators and activations move. Each step has two launches.
Bytes Resting::steps_of_host() const {
  const Graph& graph = model_->graph;
  const Bytes each = machine_->host_reserve.per_step + machine_->host_reserve.per_launch * 2;
  const Bytes steps = each * static_cast<std::int64_t>(4 * graph.order.size());
  if (machine_->backend != Backend::cuda) return steps;
  return steps + pinned_bytes(graph, make_timeline(graph, model_->accumulation, true)) - kPinnedPart;
}

// The host's budget without its process, which includes the kernels of a chunked loss.
Bytes Resting::room_of_host() const {
  if (!has_host(*machine_) || request_->beyond.empty()) return Residency::kAllNear;
  const Bytes budget = request_->beyond.front();
  if (budget.n == 0) return {};
  const Simulation simulation = simulate(model_->graph, model_->accumulation, 1, request_->saves, model_->kernels);
  constexpr int kOfTheLoss = 8;
  const int primitives = count_primitives(simulation, 1, machine_->threads) + kOfTheLoss;
  const Bytes part = machine_->backend == Backend::cuda ? kPinnedPart : Bytes{0};
  const Bytes items = total(reserve_items(machine_->host_reserve, {.primitives = primitives, .reading = kReadBack}, Bytes{0}));
  const Bytes process = items + part + steps_of_host();
  if (budget >= process) return budget - process;
  throw config_error("E-HOST-SIZE", "memory.host_memory",
                     fmt::format("the process on the host takes {} without the values that rest there; its budget is {}",
                                 to_text(process), to_text(budget)),
                     "a budget that holds it", {Change("memory.host_memory", process.n)});
}

// Host bytes of the transfers. Fetches of blocks are not in this graph yet: they add twice the bytes of streaming.
Bytes Resting::transfers_of_host(const Graph& paged, const Residency& residency) const {
  constexpr Bytes kThreads{128 << 10};  // host bytes of threads other than those of the disk
  const std::vector<ReserveItem> items = paging_reserve(paged, residency, *machine_, 1);
  Bytes needed = total(items) + kThreads;
  for (const ReserveItem& item : items) {
    if (item.name == kPiecesItem) needed += item.bytes * 2;
  }
  return needed;
}

Error Resting::no_room(Bytes least) const {
  const Tier& nearest = machine_->tiers[1];
  const bool behind = request_->beyond.size() > 1, on_disk = behind || nearest.kind == TierKind::disk;
  const std::string what = behind ? "data without room on the " + nearest.name : "data on the " + nearest.name;
  return config_error("E-DISK-SIZE", on_disk ? "memory.disk" : "memory.host_memory",
                      fmt::format("{} takes {}, the budget is {}", what, to_text(least), to_text(request_->beyond.back())),
                      "a budget that holds it",
                      {on_disk ? advised_disk(std::to_string(least.n)) : Change("memory.host_memory", least.n)});
}

std::optional<Resting::Beside> Resting::beside_process(Residency residency) const {
  const auto paged = [&] { return apply_paging(model_->graph, model_->units, residency); };
  Bytes process;  // part of the host's budget
  if (room_ != Residency::kAllNear) {
    if (request_->beyond.size() > 1) residency.near = Bytes{0};  // as if all values passed to the disk
    const Bytes transfers = transfers_of_host(paged(), residency);
    process = request_->beyond.front() - room_ + transfers;
    residency.near = std::max(Bytes{0}, room_ - transfers);
  }
  const StoredLayout stored = stored_layout(paged());
  if (stored.total().n == 0) return {};
  const Bytes least = request_->beyond.size() > 1 ? stored.ends[request_->beyond.size()] : stored.total() + process;
  return Beside{residency, has_room(stored, residency, request_->beyond), least};
}

std::vector<Residency> Resting::choices() const {
  if (request_->beyond.empty() || request_->optimizer_state == RestPolicy::memory) return {Residency{}};
  const bool tables = model_->kernels.take_ranges(model_->graph) && has_tables(model_->graph, model_->units);
  std::vector<Residency> wanted = listed(early_, tables);
  if (!early_ && group_ends_) {
    for (const Residency& residency : listed(true, tables)) {
      if (std::find(wanted.begin(), wanted.end(), residency) == wanted.end()) wanted.insert(wanted.end() - 1, residency);
    }
  }
  std::vector<Residency> list;
  if (!wants_disk(*request_)) list.emplace_back();
  std::optional<Bytes> least;  // fewest bytes that have to leave memory
  for (const Residency& residency : wanted) {
    for (const Beside& beside : levels_of(residency)) {
      if (beside.has_room) list.push_back(beside.residency);
      least = least ? std::min(*least, beside.least) : beside.least;
    }
  }
  if (list.empty() && least) throw no_room(*least);
  return list.empty() ? std::vector{Residency{}} : list;
}

std::vector<std::int64_t> Resting::groups(const Residency& residency) const {
  const std::int64_t window = model_->accumulation;
  if (request_->group) {
    const std::string ragged = request_->ragged && *request_->group > 1 ? "windows have different numbers of micro-batches" : "";
    std::string problem = ragged.empty() ? why_not_grouped(model_->graph, model_->units, *request_->group) : ragged;
    const bool part = *request_->group > 1 && *request_->group != window;
    if (problem.empty() && part && exchanges_in_rounds(model_->graph)) {
      problem = "ranks sum their gradients once a round, and a group of a part of the window would change these sums";
    }
    if (problem.empty()) return {*request_->group};
    throw config_error("E-PLAN-GROUP", "plan.group", problem, "one micro-batch after the other, or the planner's choice",
                       {Change("plan.group", "auto")});
  }
  std::vector<std::int64_t> list{1};
  const bool fetches = residency.parameters.beyond && residency.kept() == 0;
  // Gradients of fetched blocks stay in memory only if an update ends them.
  const bool all = residency.parameters.beyond && !residency.accumulators.beyond &&
                   request_->gradients == RestPolicy::automatic &&
                   (residency.kept() > 0 || residency.tables.beyond || residency.by_matrix);
  const bool by_round = exchanges_in_rounds(model_->graph);
  const bool ends = (group_ends_ || by_round) && !residency.active();
  if (window == 1 || !may_group_ || (!fetches && !ends && !all)) return list;
  const std::size_t nodes = model_->graph.section_order(Section::micro).size();
  std::int64_t most = 1;
  for (std::int64_t group = 2; group <= std::min(window, kMostGroup); ++group) {
    const bool few = static_cast<std::size_t>(group) * nodes <= kMostNodes;
    if (few && window % group == 0) most = group;
  }
  if (all) return most == window ? std::vector{most} : std::vector<std::int64_t>{};
  if (by_round && most < window) return list;
  if (fetches && most > 4 && !by_round) {
    for (std::int64_t group = 2; group * group <= most; ++group) {
      if (group * group * 4 > most && most % group == 0) {
        list.push_back(group);
        break;
      }
    }
  }
  if (most > 1 && (fetches || most == window)) list.push_back(most);
  return list;
}

std::optional<Residency> Resting::beside_group(Residency residency, std::int64_t group) const {
  if (group == 1 || !residency.active() || residency.near == Residency::kAllNear || request_->beyond.front().n == 0)
    return residency;
  residency.near = std::max(Bytes{0}, residency.near - steps_of_host() * (group - 1));
  const StoredLayout stored = stored_layout(apply_paging(model_->graph, model_->units, residency));
  return has_room(stored, residency, request_->beyond) ? std::optional(residency) : std::nullopt;
}

}  // namespace plimsoll
