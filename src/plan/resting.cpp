#include "plan/resting.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>

#include "base/error.h"
#include "plan/pinned.h"
#include "plan/simulation.h"

namespace plimsoll {

bool wants_disk(const PlanRequest& request) {
  const RestPolicy policies[] = {request.optimizer_state, request.parameters, request.gradients, request.activations};
  return std::any_of(std::begin(policies), std::end(policies), [](RestPolicy policy) { return policy == RestPolicy::disk; });
}

namespace {

bool allows(RestPolicy policy, bool on_disk) {
  return policy == RestPolicy::automatic || (policy == RestPolicy::disk) == on_disk;
}

// A page of 1 MiB takes the measured disk 1 ms, ten times its latency; 128 KiB as long as its latency. Four slots: two on their
// way in, one being updated, one on its way out.
constexpr std::int64_t kSlots = 4, kLargePage = 1 << 18, kSmallPage = 1 << 15;

// The graphs of groups that are larger than this take too long to look at.
constexpr std::size_t kMostNodes = 6000;

bool has_tables(const Graph& graph, const std::vector<GraphBlock>& blocks) {
  const auto stored = [&](bool tables) {
    return stored_layout(apply_paging(graph, blocks, {kLargePage, kSlots, true, true, 0, tables})).total();
  };
  return stored(true) > stored(false);
}

// What may rest on a disk, from the least to the most, whatever its size. Large pages are for speed; narrow passes and small
// pages are for little memory, which is where the smallest micro-batch is.
std::vector<Paging> pagings_of(const PlanRequest& request, bool updates_early, bool tables, bool smallest) {
  std::vector<Paging> list;
  for (const bool accumulators : {false, true}) {
    for (const bool parameters : {false, true}) {
      if (!allows(request.parameters, parameters) || !allows(request.gradients, accumulators)) continue;
      // Left to the planner, accumulators follow the parameters, and stay where an update ends them within the backward pass.
      const bool open = request.gradients == RestPolicy::automatic;
      if (open && accumulators && (updates_early || !parameters)) continue;
      list.push_back({kLargePage, kSlots, parameters, accumulators});
    }
  }
  if (list.empty()) return list;
  Paging most = list.back();
  if (tables && most.parameters && allows(request.gradients, true)) {
    most.tables = true;
    list.push_back(most);
  }
  if (!smallest) return list;
  most.narrow = most.parameters;
  if (most.tables) list.push_back(most);
  most.page = kSmallPage;
  list.push_back(most);
  return list;
}

}  // namespace

Together together_of(const BatchModel& model, const PlanRequest& request) {
  if (!may_group(model.graph, model.blocks)) return {};
  return {true, make_timeline(model.graph, 1, request.saves).early_updates};
}

namespace {

// Bytes of the process on a host for each micro-batch that goes together: four times the steps, as all may be made again and
// parameters, accumulators and activations come and go, with two launches each; and what is fed.
Bytes steps_of_host(const BatchModel& model, const Machine& machine) {
  const Bytes each = machine.host_reserve.per_step + machine.host_reserve.per_launch * 2;
  const Bytes steps = each * static_cast<std::int64_t>(4 * model.graph.order.size());
  if (machine.instruction_set != kCudaInstructions) return steps;
  return steps + pinned_bytes(model.graph, make_timeline(model.graph, model.accumulation, true)) - kPinnedPart;
}

// What the budget of a host leaves beside its process, which is counted with the kernels of a loss in chunks.
Bytes room_of_host(BatchModel& model, const PlanRequest& request, const Machine& machine) {
  if (!has_host(machine) || request.beyond.empty()) return Paging::kAllNear;
  if (request.beyond.front().n == 0) return {};
  const Simulation simulation = simulate(model.graph, model.accumulation, 1, request.saves, model.kernels);
  constexpr int kOfTheLoss = 8;
  const int primitives = count_primitives(simulation, 1, machine.threads) + kOfTheLoss;
  const Bytes part = machine.instruction_set == kCudaInstructions ? kPinnedPart : Bytes{0};
  const Bytes items = total(reserve_items(machine.host_reserve, {.primitives = primitives}, Bytes{0}));
  const Bytes process = items + part + steps_of_host(model, machine);
  if (request.beyond.front() >= process) return request.beyond.front() - process;
  throw config_error("E-HOST-SIZE", "memory.host_memory",
                     fmt::format("the process on the host takes {} beside what rests there, its budget is {}", to_text(process),
                                 to_text(request.beyond.front())),
                     "a budget that holds it", {"--host-memory " + std::to_string(process.n)});
}

// What transfers take of the process on a host. What blocks fetch is not in this graph yet: as much again as what streams, twice.
Bytes transfers_of_host(const Graph& paged, const Paging& paging, const Machine& machine) {
  constexpr Bytes kThreads{128 << 10};  // of the host's memory, beside those of the disk
  const std::vector<ReserveItem> items = paging_reserve(paged, paging, machine, 1);
  Bytes needed = total(items) + kThreads;
  for (const ReserveItem& item : items) {
    if (item.name == kPiecesItem) needed += item.bytes * 2;
  }
  return needed;
}

Error no_room(Bytes least, const PlanRequest& request, const Machine& machine) {
  const bool behind = request.beyond.size() > 1, on_disk = behind || machine.tiers[1].name == "disk";
  const std::string what = behind ? fmt::format("what the {} has no room for", machine.tiers[1].name)
                                  : fmt::format("what rests on the {}", machine.tiers[1].name);
  return config_error("E-DISK-SIZE", on_disk ? "memory.disk" : "memory.host_memory",
                      fmt::format("{} takes {}, the budget is {}", what, to_text(least), to_text(request.beyond.back())),
                      "a budget that holds it", {(on_disk ? "--disk PATH:" : "--host-memory ") + std::to_string(least.n)});
}

}  // namespace

namespace {

// A choice beside the process on a host, where there is one with `room` for both.
struct Beside {
  Paging paging;
  Bytes least;  // the room that the last tier needs
  bool fits = false;
};

Beside beside_process(const BatchModel& model, Paging paging, Bytes room, const PlanRequest& request, const Machine& machine) {
  const auto paged = [&] { return apply_paging(model.graph, model.blocks, paging); };
  Bytes process;  // of the host's budget
  if (room != Paging::kAllNear) {
    if (request.beyond.size() > 1) paging.near = Bytes{0};  // as if all passed the disk
    const Bytes transfers = transfers_of_host(paged(), paging, machine);
    process = request.beyond.front() - room + transfers;
    paging.near = std::max(Bytes{0}, room - transfers);
  }
  const StoredLayout stored = stored_layout(paged());
  const Bytes least = request.beyond.size() > 1 ? stored.ends[2] : stored.total() + process;
  return {paging, least, stored.total().n > 0 && has_room(stored, paging, request.beyond)};
}

bool updates_early(const BatchModel& model, const PlanRequest& request) {
  return make_timeline(model.graph, model.accumulation, request.saves).early_updates;
}

}  // namespace

std::vector<Paging> pagings(BatchModel& model, Together together, bool smallest, const PlanRequest& request,
                            const Machine& machine) {
  const Bytes room = room_of_host(model, request, machine);
  if (request.beyond.empty() || request.optimizer_state == RestPolicy::memory) return {Paging{}};
  const bool early = updates_early(model, request);
  const bool tables = model.kernels.take_ranges(model.graph) && has_tables(model.graph, model.blocks);
  std::vector<Paging> list, wanted = pagings_of(request, early, tables, smallest);
  if (!early && together.ends) {
    for (const Paging& paging : pagings_of(request, true, tables, smallest)) {
      if (std::find(wanted.begin(), wanted.end(), paging) == wanted.end()) wanted.insert(wanted.end() - 1, paging);
    }
  }
  if (!wants_disk(request)) list.push_back({});
  std::optional<Bytes> least;  // that has to leave memory
  for (const Paging& paging : wanted) {
    const Beside beside = beside_process(model, paging, room, request, machine);
    if (beside.fits) list.push_back(beside.paging);
    if (beside.least.n > 0) least = least ? std::min(*least, beside.least) : beside.least;
  }
  if (!list.empty()) return list;
  if (!least) return {Paging{}};
  throw no_room(*least, request, machine);
}

std::vector<Paging> between(BatchModel& model, Together together, const std::vector<Looked>& looked, const PlanRequest& request,
                            const Machine& machine) {
  const auto all = static_cast<int>(model.blocks.size());
  const bool ends = together.ends || request.gradients != RestPolicy::automatic || updates_early(model, request);
  // What is left to the planner may be so for some blocks.
  const auto divides = [&](const Paging& paging) {
    if (!paging.active() || paging.tables || paging.narrow || paging.page != kLargePage) return false;
    if (!paging.parameters) return !paging.accumulators && request.optimizer_state == RestPolicy::automatic;
    return request.parameters == RestPolicy::automatic && (paging.accumulators || ends);
  };
  // The number of blocks that keep what `more` leaves, in `less`.
  const auto kept = [&](const Paging& more, const Paging& less) {
    const bool alike = less.active() && more.parameters == less.parameters && more.accumulators == less.accumulators;
    if (alike) return divides(less) ? less.resident : 0;
    const bool state_alone = less.active() && !less.parameters && !less.accumulators && less.resident == 0;
    return (more.parameters ? state_alone : !less.active()) ? all : 0;
  };
  std::vector<Paging> list;
  for (const Looked& more : looked) {
    if (!divides(more.paging)) continue;
    const Looked* next = nullptr;
    int end = all + 1;
    for (const Looked& less : looked) {
      const int number = kept(more.paging, less.paging);
      if (number <= more.paging.resident || number >= end) continue;
      next = &less;
      end = number;
    }
    const int middle = (more.paging.resident + end) / 2;
    if (next == nullptr || middle == more.paging.resident || more.seconds <= kStep * next->seconds) continue;
    Paging paging = more.paging;
    paging.resident = middle;
    const Beside beside = beside_process(model, paging, room_of_host(model, request, machine), request, machine);
    if (beside.fits) list.push_back(beside.paging);
  }
  return list;
}

std::vector<std::int64_t> groups(const BatchModel& model, Together together, const Paging& paging, const PlanRequest& request) {
  if (request.group) {
    const std::string problem = why_not_grouped(model.graph, model.blocks, *request.group);
    if (problem.empty()) return {*request.group};
    throw config_error("E-PLAN-GROUP", "plan.group", problem, "one micro-batch after the other, or the planner's choice",
                       {"--set plan.group=auto"});
  }
  std::vector<std::int64_t> list{1};
  const bool fetches = paging.parameters && paging.resident == 0;
  // Gradients of blocks that are fetched stay here only where an update ends them.
  const bool all = paging.parameters && !paging.accumulators && request.gradients == RestPolicy::automatic &&
                   (paging.resident > 0 || paging.tables || paging.narrow);
  const bool ends = together.ends && !paging.active();
  if (model.accumulation == 1 || !together.may || (!fetches && !ends && !all)) return list;
  const std::size_t nodes = model.graph.section_order(Section::micro).size();
  std::int64_t most = 1;
  for (std::int64_t group = 2; group <= model.accumulation; ++group) {
    const bool few = static_cast<std::size_t>(group) * nodes <= kMostNodes;
    if (few && model.accumulation % group == 0) most = group;
  }
  if (all) return most == model.accumulation ? std::vector{most} : std::vector<std::int64_t>{};
  if (fetches && most > 4) {
    for (std::int64_t group = 2; group * group <= most; ++group) {
      if (group * group * 4 > most && most % group == 0) {
        list.push_back(group);
        break;
      }
    }
  }
  if (most > 1 && (fetches || most == model.accumulation)) list.push_back(most);
  return list;
}

std::optional<Paging> beside_group(const BatchModel& model, Paging paging, std::int64_t group, const PlanRequest& request,
                                   const Machine& machine) {
  if (group == 1 || !paging.active() || paging.near == Paging::kAllNear || request.beyond.front().n == 0) return paging;
  paging.near = std::max(Bytes{0}, paging.near - steps_of_host(model, machine) * (group - 1));
  const StoredLayout stored = stored_layout(apply_paging(model.graph, model.blocks, paging));
  return has_room(stored, paging, request.beyond) ? std::optional(paging) : std::nullopt;
}

}  // namespace plimsoll
