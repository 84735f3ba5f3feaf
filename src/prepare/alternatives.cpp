#include "prepare/alternatives.h"

#include <fmt/core.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iterator>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/memory_limit.h"
#include "base/tasks.h"
#include "config/config_rules.h"
#include "measure/measure_disk.h"
#include "prepare/model_changes.h"
#include "prepare/requests.h"

namespace plimsoll {
namespace {

using nlohmann::json;

std::string_view optimizer_text(const OptimizerChoice& optimizer) {
  switch (optimizer.kind) {
    case OptimizerKind::adamw: return "AdamW";
    case OptimizerKind::lion: return "Lion";
    case OptimizerKind::sgd: return "SGD with momentum";
    case OptimizerKind::adafactor: return "Adafactor";
  }
  return "";
}

// The free bytes of a folder's file system; 0 if it is in memory, or if the folder is not writable.
Bytes free_on_disk(const std::filesystem::path& folder) {
  constexpr long kTmpfs = 0x01021994, kRamfs = 0x858458f6;  // statfs(2)
  struct statfs facts {};
  if (::access(folder.c_str(), W_OK | X_OK) != 0 || ::statfs(folder.c_str(), &facts) != 0) return {};
  if (facts.f_type == kTmpfs || facts.f_type == kRamfs) return {};
  const double free = static_cast<double>(facts.f_bavail) * static_cast<double>(facts.f_bsize);
  return Bytes{static_cast<std::int64_t>(std::min(free, 0x1p61))};
}

Bytes rounded_room(Bytes bytes) { return align_up(bytes, bytes < kGiB ? kMiB * 64 : kGiB); }

// The first of `rooms` that a disk has, where runs lie or else in a folder for temporary files. Empty if no disk has the smallest
// room.
std::optional<DiskBudget> proposed_disk(const std::filesystem::path& runs, const std::vector<Bytes>& rooms) {
  for (const std::filesystem::path& place : {runs, std::filesystem::path("/var/tmp"), std::filesystem::path("/tmp")}) {
    const Bytes free = free_on_disk(place);
    for (const Bytes room : rooms) {
      if (room > free) continue;
      return DiskBudget{place == "." ? "plimsoll-disk" : place / "plimsoll-disk", room};
    }
  }
  return {};
}

bool may_narrow_state(const Config& config) { return keeps_state(config) && config.precision.optimizer_state == DType::f32; }

// Changes of one kind, the least first: the first that fits is enough. Kinds that leave results as they are come first.
struct ChangeKind {
  std::vector<Change> changes;
  bool free = false;  // changes no results and needs nothing more of the machine
};

// Arguments that undo all decisions made by hand; empty if there are none.
Arguments all_automatic(const PlanRequest& request) {
  Arguments arguments;
  if (request.recompute != RecomputePolicy::automatic) arguments = both(std::move(arguments), sets({"plan.recompute=auto"}));
  if (request.loss_chunks) arguments = both(std::move(arguments), sets({"plan.loss_chunks=auto"}));
  if (request.group) arguments = both(std::move(arguments), sets({"plan.group=auto"}));
  if (!request.micro_batch) return arguments;
  if (request.ragged) return both(sets({"train.micro_batch=auto"}), arguments);
  // The effective batch may follow from the two keys that are undone.
  return both(sets({fmt::format("train.effective_batch={}", request.effective_batch), "train.micro_batch=auto",
                    "train.accumulation=auto"}),
              arguments);
}

ChangeKind automatic_choices(const PlanRequest& request) {
  ChangeKind kind{{}, true};
  if (request.recompute != RecomputePolicy::automatic) {
    kind.changes.push_back({"let the planner choose what is recomputed", sets({"plan.recompute=auto"})});
  }
  if (request.loss_chunks) {
    kind.changes.push_back({"let the planner choose the loss chunks", sets({"plan.loss_chunks=auto"})});
  }
  if (request.group) {
    kind.changes.push_back({"let the planner choose how many micro-batches go together", sets({"plan.group=auto"})});
  }
  return kind;
}

// The micro-batch alone, then with all other decisions.
ChangeKind automatic_batch(const PlanRequest& request) {
  if (!request.micro_batch) return {};
  PlanRequest alone;
  alone.micro_batch = request.micro_batch;
  alone.effective_batch = request.effective_batch;
  alone.ragged = request.ragged;
  ChangeKind kind{{{"let the planner choose micro-batch and accumulation (same effective batch)", all_automatic(alone)}}, true};
  if (request.recompute != RecomputePolicy::automatic || request.loss_chunks || request.group) {
    kind.changes.push_back({"let the planner choose everything", all_automatic(request)});
  }
  return kind;
}

// Room for what leaves memory: on a host if the machine has one, else on a disk. The given disk may be too small.
std::optional<Change> more_room(const Config& config, const PlanningInput& input, const Leaving& leaving) {
  if (leaving.state.n == 0) return {};
  // Values that cross into the blocks may leave as well.
  const Bytes most = rounded_room(leaving.all * 2);
  const std::vector<Bytes> rooms{most, rounded_room(leaving.all), rounded_room(leaving.state)};
  if (config.memory.disk) {
    const DiskBudget& given = *config.memory.disk;
    const Bytes free = free_on_disk(existing_folder(given.folder));
    if (given.size >= most || free < most) return {};
    return Change{"more room on the disk", {"--disk", fmt::format("{}:{}", given.folder.string(), argument_of(most))}};
  }
  if (!input.request.beyond.empty()) return {};
  if (has_host(input.machine.machine)) {
    return Change{"a part of the training in the memory of the host", {"--host-memory", argument_of(most + kGiB)}};
  }
  const std::optional<DiskBudget> disk = proposed_disk(input.runs, rooms);
  if (!disk) return {};
  return Change{"a part of the training on the disk",
                {"--disk", fmt::format("{}:{}", disk->folder.string(), argument_of(disk->size))}};
}

ChangeKind rooms_beyond_memory(const Config& config, const PlanningInput& input, const Leaving& leaving) {
  const std::optional<Change> room = more_room(config, input, leaving);
  if (!room) return {};
  Change alone = *room;
  if (input.request.optimizer_state == RestPolicy::memory) {
    alone.arguments = both(std::move(alone.arguments), sets({"plan.optimizer_state=auto"}));
  }
  ChangeKind kind{{alone}};
  const Arguments automatic = all_automatic(input.request);
  if (!automatic.empty()) {
    kind.changes.push_back({alone.text + ", and let the planner choose everything", both(alone.arguments, automatic)});
  }
  for (const Change& shorter : shorter_samples(config)) {
    kind.changes.push_back(
        {alone.text + ", and " + shorter.text, both(both(alone.arguments, automatic), shorter.arguments), true});
  }
  return kind;
}

// The knee, or the memory of the machine if that is less and still enough.
Change more_memory(const PlanningInput& input, Bytes floor, Bytes knee) {
  const Bytes here = Bytes{input.machine.machine.tiers.front().capacity.n / kMiB.n * kMiB.n};
  if (here < knee && here >= floor) return {"all the memory of this machine", {"--memory", argument_of(here)}};
  const std::string text = here < floor ? "more memory than this machine has: from here on more gains little"
                                        : "more memory: from here on more gains little (the knee)";
  return {text, {"--memory", argument_of(align_up(knee, kMiB))}};
}

std::vector<Change> narrower_numbers(const Config& config) {
  std::vector<Change> changes;
  if (!may_narrow_state(config)) return changes;
  changes.push_back({"optimizer state in bf16", sets({"precision.optimizer_state=bf16"}), true});
  changes.push_back({"optimizer state in 8bit", sets({"precision.optimizer_state=8bit"}), true});
  const PrecisionSettings& precision = config.precision;
  if (precision.parameters != DType::f32 || precision.compute == DType::f16 || precision.rounding != Rounding::stochastic) {
    return changes;
  }
  changes.push_back({"weights, gradients and optimizer state in bf16",
                     sets({"precision.compute=bf16", "precision.parameters=bf16", "precision.gradients=bf16",
                           "precision.optimizer_state=bf16"}),
                     true});
  return changes;
}

std::vector<Change> no_state(const Config& config) {
  if (!keeps_state(config)) return {};
  Arguments arguments = sets({"optimizer.name=sgd", "optimizer.momentum=0"});
  if (config.schedule.momentum) arguments = both(std::move(arguments), sets({"schedule.momentum_range=none"}));
  if (config.optimizer.half_lives) arguments = both(std::move(arguments), sets({"optimizer.half_lives=none"}));
  if (config.precision.optimizer_state != DType::f32) {
    arguments = both(std::move(arguments), sets({"precision.optimizer_state=fp32"}));
  }
  const bool narrow = config.precision.parameters != DType::f32 || config.precision.gradients != DType::f32;
  if (!narrow && config.precision.rounding != Rounding::stochastic) {
    arguments = both(std::move(arguments), sets({"precision.rounding=stochastic"}));
  }
  return {{fmt::format("SGD without momentum instead of {}", optimizer_text(config.optimizer)), std::move(arguments), true}};
}

struct Outcome {
  Bytes process;
  double seconds = 0;
  std::int64_t micro_batch = 1;
  bool assumed_disk = false;  // nobody has measured it
  bool floors_alone = false;  // the memory limit had no room for other plans: a plan of its own may find a faster one
};

Outcome outcome_of(const Plan& plan) { return {plan.process, plan.update_seconds, plan.decisions.micro_batch}; }

// The outcome of a change; empty if it does not fit. Throws if it asks for the impossible: a disk that is too small for the
// state.
std::optional<Outcome> outcome_of(const Asked& asked, const PlanningInput& input, const Machine& machine,
                                  const std::vector<Budget>& budgets, double& work) {
  OpCatalogue catalogue = catalogue_of(input.machine);
  PlanSpace space(source_of(asked.config, asked.facts), asked.request, machine, catalogue);
  work += space.effort().work;
  for (const Budget& budget : budgets) {
    if (const Plan* plan = space.fastest(budget)) return outcome_of(*plan);
  }
  return {};
}

// Empty if the configuration refuses it as well.
template <class Try>
std::optional<Outcome> unless_refused(const Try& attempt) {
  try {
    return attempt();
  } catch (const Error& error) {
    if (error.kind == ErrorKind::internal) throw;
    return {};
  }
}

// Plans the changed configuration; empty if it does not fit either. Measures no disk: that takes seconds.
std::optional<Outcome> try_change(const Change& change, const Config& config, const PlanningInput& input, bool floors_alone,
                                  double& work) {
  return unless_refused([&] {
    Asked asked = with_arguments(input, change.arguments);
    asked.request.floor_only = floors_alone;
    Machine machine = input.machine.machine;
    bool assumed = false;
    if (asked.config.memory.disk && !config.memory.disk) {
      assumed = !add_known_disk_tier(machine, *asked.config.memory.disk, config.plan.transfers, input.cache);
    }
    std::optional<Outcome> outcome = outcome_of(asked, input, machine, {asked.budget}, work);
    if (outcome) {
      outcome->assumed_disk = assumed;
      outcome->floors_alone = floors_alone;
    }
    return outcome;
  });
}

}  // namespace

Leaving leaving_of(const Config& config, const PlanningInput& input) {
  const Graph graph = build_training_graph(config, input.facts, 1).graph;
  Paging paging{.page = kStoredAlignment.n, .slots = 2};
  const Bytes state = stored_layout(apply_paging(graph, {}, paging)).total();
  Bytes all = state;
  // Gradients and moments are as many as parameters, which may all leave.
  for (const Value& value : graph.values) {
    if (value.persistent() && (value.role == Role::parameter || value.role == Role::accumulator)) all += value.bytes();
  }
  return {all, state};
}

namespace {

// Runs body(i), which returns its work, for one alternative after the other, as long as the next ones are not expected to exceed
// the limit together with the `work` so far. The expected work of one is `each`, the work of the plan that it changes, or the
// largest work so far, if that is less. If nothing came before, one is looked at in any case. Some run side by side; the
// selection does not depend on the number of threads. Returns the skipped ones. `floors_alone`, if given, becomes true when the
// memory limit has no room for one: that one and those after it are then looked at by their smallest plans.
std::vector<std::size_t> look_at_alternatives(std::size_t count, double work, double each,
                                              const std::function<double(std::size_t)>& body,
                                              const std::function<void(std::size_t)>& forget, bool* floors_alone = nullptr) {
  constexpr std::size_t kTogether = 2;
  constexpr double kOfFailure = kMostAlternativeWork / 5;  // the work until memory ran out is unknown
  std::vector<std::size_t> left_out;
  double most = 0;
  for (std::size_t first = 0; first < count;) {
    const double expected = most > 0 ? std::min(most, each) : each;
    const bool little_memory = floors_alone != nullptr && *floors_alone;
    std::size_t together = little_memory ? 1 : std::min(kTogether, count - first);
    if (first == 0 && work + expected * kTogether > kMostAlternativeWork) together = 1;
    const bool enough = work > 0 && work + expected * static_cast<double>(together) > kMostAlternativeWork;
    std::vector<double> works(together);
    std::vector<char> failed(together);
    const auto look = [&](std::size_t i) {
      failed[i] = 0;
      try {
        works[i] += body(first + i);
      } catch (const std::bad_alloc&) {
        works[i] += std::max(expected, kOfFailure);
        failed[i] = 1;
      }
    };
    if (!enough) run_tasks(together, look);
    if (floors_alone != nullptr && std::ranges::any_of(failed, std::identity{}) && !std::exchange(*floors_alone, true)) {
      for (std::size_t i = 0; i < together; ++i) {
        if (failed[i] != 0) look(i);
      }
    }
    for (std::size_t i = 0; i < together; ++i, ++first) {
      if (enough || failed[i] != 0) {
        forget(first);
        left_out.push_back(first);
      }
      work += works[i];
      most = std::max(most, works[i]);
    }
  }
  return left_out;
}

}  // namespace

void add_remedies(json& object, const Config& config, const PlanningInput& input, PlanSpace& space, Bytes floor,
                  const Spent& spent) {
  const std::vector<ChangeKind> kinds{automatic_choices(input.request),
                                      automatic_batch(input.request),
                                      rooms_beyond_memory(config, input, leaving_of(config, input)),
                                      {{more_memory(input, floor, space.knee())}},
                                      {narrower_numbers(config)},
                                      {other_bases(config)},
                                      {other_ranks(config)},
                                      {shorter_samples(config)},
                                      {frozen_parts(config, input)},
                                      {new_adapters(config)},
                                      {no_state(config)}};
  struct Remedy {
    int rank;  // of its cost other than seconds
    double seconds;
    json object;
  };
  // A remedy takes about as much memory as the request itself, with a disk up to three times as much.
  const std::optional<Bytes> room = MemoryLimit::room();
  bool floors_alone = input.request.floor_only || (room && *room < spent.memory * 3);
  std::vector<std::optional<Remedy>> found(kinds.size());
  std::vector<std::size_t> looked(kinds.size());  // number of changes looked at, per kind
  const auto look = [&](std::size_t i) {
    double work = 0;
    for (looked[i] = 0; looked[i] < kinds[i].changes.size() && work < kMostAlternativeWork;) {
      const Change& change = kinds[i].changes[looked[i]++];
      const std::optional<Outcome> outcome = try_change(change, config, input, floors_alone, work);
      if (!outcome) continue;
      const int rank = kinds[i].free ? 0 : static_cast<int>(i) + (change.changes_result ? static_cast<int>(kinds.size()) : 0);
      found[i] = Remedy{rank,
                        outcome->seconds,
                        {{"text", change.text},
                         {"arguments", change.arguments},
                         {"process_bytes", outcome->process.n},
                         {"update_seconds", outcome->seconds},
                         {"changes_result", change.changes_result}}};
      if (outcome->assumed_disk) found[i]->object["assumed_disk_bytes_per_second"] = kAssumedDiskRate;
      if (outcome->floors_alone) found[i]->object["floors_alone"] = true;
      return work;
    }
    return work;
  };
  const auto forget = [&](std::size_t i) {
    found[i].reset();
    looked[i] = 0;
  };
  look_at_alternatives(kinds.size(), spent.work, space.effort().work, look, forget, &floors_alone);
  json left_out = json::array();
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (found[i]) continue;
    for (std::size_t c = looked[i]; c < kinds[i].changes.size(); ++c) left_out.push_back(kinds[i].changes[c].text);
  }
  std::vector<Remedy> helpful;
  for (std::optional<Remedy>& remedy : found) {
    if (remedy) helpful.push_back(std::move(*remedy));
  }
  std::ranges::stable_sort(helpful, {}, [](const Remedy& remedy) { return std::pair(remedy.rank, remedy.seconds); });
  json list = json::array();
  for (Remedy& remedy : helpful) list.push_back(std::move(remedy.object));
  object["infeasible"]["remedies"] = std::move(list);
  object["left_out"] = std::move(left_out);
}

namespace {

struct Lever {
  std::string name;
  Arguments arguments;          // in addition to those of the plan
  bool changes_result = false;  // trains other numbers
  bool batch = false;           // of them, by another micro-batch
};

// Values on the next tier, the least often read first.
std::vector<Lever> tier_levers(const std::string& tier) {
  return {
      {"optimizer state on the " + tier, sets({"plan.optimizer_state=disk", "plan.parameters=memory", "plan.gradients=memory"})},
      {"parameters and gradients of the blocks, too",
       sets({"plan.optimizer_state=disk", "plan.parameters=disk", "plan.gradients=disk"})},
      {"blocks made again from inputs on the " + tier,
       sets({"plan.optimizer_state=disk", "plan.activations=disk", "plan.recompute=all"})}};
}

// Narrower numbers and smaller state: changes beyond the rounding of another split of the batch.
std::vector<Lever> number_levers(const Config& config) {
  std::vector<Lever> list;
  if (config.precision.compute == DType::f32) {
    list.push_back({"products in bf16", sets({"precision.compute=bf16"}), true});
    if (config.precision.parameters == DType::f32) {
      list.push_back({"weights in bf16, too", sets({"precision.compute=bf16", "precision.parameters=bf16"}), true});
    }
  }
  if (!may_narrow_state(config)) return list;
  list.push_back({"optimizer state in bf16", sets({"precision.optimizer_state=bf16"}), true});
  list.push_back({"optimizer state in 8bit", sets({"precision.optimizer_state=8bit"}), true});
  if (config.optimizer.kind == OptimizerKind::adamw && !config.schedule.momentum && !config.optimizer.half_lives) {
    list.push_back({"Adafactor instead of AdamW", sets({"optimizer.name=adafactor"}), true});
  }
  return list;
}

// The nearest divisors of the effective batch below and above the micro-batch, and 1.
std::vector<std::int64_t> other_micro_batches(std::int64_t batch, std::int64_t micro) {
  std::vector<std::int64_t> sizes;
  std::int64_t below = 1, above = batch;
  for (std::int64_t size = 1; size <= batch; ++size) {
    if (batch % size != 0) continue;
    if (size < micro) below = size;
    if (size > micro) above = std::min(above, size);
  }
  for (const std::int64_t size : {std::int64_t{1}, below, above}) {
    if (size != micro && std::ranges::find(sizes, size) == sizes.end()) sizes.push_back(size);
  }
  return sizes;
}

std::int64_t many_together(std::int64_t accumulation) {
  constexpr std::int64_t kMostTogether = 8;
  std::int64_t together = 1;
  for (std::int64_t group = 2; group <= std::min(kMostTogether, accumulation); ++group) {
    if (accumulation % group == 0) together = group;
  }
  return together;
}

// Other trainings, with a few changes of each kind: each costs a plan.
std::vector<Lever> model_levers(const Config& config, const PlanningInput& input) {
  std::vector<Change> changes = new_adapters(config);
  const auto add = [&](std::vector<Change> more) { std::ranges::move(more, std::back_inserter(changes)); };
  add(other_ranks(config));
  add(other_bases(config));
  if (std::vector<Change> shorter = shorter_samples(config); !shorter.empty()) add({std::move(shorter.front())});
  add({longer_samples(config)});
  add(frozen_parts(config, input));
  std::vector<Lever> list;
  for (Change& change : changes) list.push_back({std::move(change.text), std::move(change.arguments), change.changes_result});
  return list;
}

// Each lever decides one thing differently from the plan.
std::vector<Lever> all_levers(const Config& config, const PlanningInput& input, const PlanDecisions& decisions) {
  const std::int64_t batch = input.request.effective_batch;
  std::vector<Lever> list{{"recompute nothing", sets({"plan.recompute=none"})},
                          {"recompute every block", sets({"plan.recompute=all"})}};
  const auto add = [&](const std::vector<Lever>& more) { list.insert(list.end(), more.begin(), more.end()); };
  list.push_back(decisions.loss_chunks == 1 ? Lever{"loss in 16 chunks", sets({"plan.loss_chunks=16"})}
                                            : Lever{"loss in one piece", sets({"plan.loss_chunks=1"})});
  for (const std::int64_t micro : other_micro_batches(batch, decisions.micro_batch)) {
    list.push_back({fmt::format("micro-batch {}", micro),
                    config.train.effective_tokens > 0 || config.batch.packing
                        ? sets({fmt::format("train.micro_batch={}", micro)})
                        : sets({fmt::format("train.micro_batch={}", micro), fmt::format("train.accumulation={}", batch / micro)}),
                    true, true});
  }
  const std::int64_t together = many_together(decisions.accumulation);
  if (decisions.group > 1) {
    list.push_back({"one micro-batch after the other", sets({"plan.group=1"})});
  } else if (together > 1) {
    list.push_back(
        {fmt::format("{} micro-batches through a block together", together), sets({fmt::format("plan.group={}", together)})});
  }
  if (!input.request.beyond.empty()) {
    const std::size_t first = input.request.beyond.front().n > 0 ? 1 : 2;
    const std::vector<Tier>& tiers = input.machine.machine.tiers;
    list.push_back({"everything in memory", sets({"plan.optimizer_state=memory", "plan.parameters=auto", "plan.gradients=auto",
                                                  "plan.activations=auto"})});
    add(tier_levers(first < tiers.size() ? tiers[first].name : "disk"));
  }
  add(number_levers(config));
  add(model_levers(config, input));
  return list;
}

struct LeverRow {
  std::string name;
  Arguments arguments;
  Outcome outcome;
  bool changes_result = false;
};

// Smaller and larger budgets, which the plan's own search answers.
std::vector<LeverRow> budget_rows(PlanSpace& space, const PlanningInput& input, const Plan& plan) {
  const std::tuple<const char*, const char*, Bytes> points[] = {{"the floor", "less memory: the floor", plan.floor},
                                                                {"the knee", "less memory: the knee", plan.knee},
                                                                {"the ceiling", "less memory: the ceiling", plan.ceiling}};
  std::vector<LeverRow> rows;
  for (const auto& [point, less, bytes] : points) {
    Budget budget = input.budget;
    budget.memory = align_up(bytes, kMiB);
    const Plan* found = space.fastest(budget);
    if (found == nullptr) continue;
    const std::string name = found->process < plan.process ? less : fmt::format("more memory: {}", point);
    rows.push_back({name,
                    {"--memory", argument_of(*budget.memory)},
                    outcome_of(*found),
                    found->decisions.micro_batch != plan.decisions.micro_batch});
  }
  return rows;
}

bool alike(double a, double b) {
  constexpr double kShare = 1e-3;
  return std::abs(a - b) <= kShare * std::max(a, b);
}
bool alike(const Outcome& a, const Outcome& b) {
  return alike(static_cast<double>(a.process.n), static_cast<double>(b.process.n)) && alike(a.seconds, b.seconds);
}

}  // namespace

void add_levers(json& object, const Config& config, const PlanningInput& input, PlanSpace& space, const Plan& plan,
                const Spent& spent) {
  std::vector<LeverRow> rows = budget_rows(space, input, plan);
  const std::vector<Lever> all = all_levers(config, input, plan.decisions);
  std::vector<std::optional<LeverRow>> planned(all.size());
  // Levers on other keys keep the micro-batch, and with it the bits.
  const bool pin = !input.request.micro_batch && input.request.effective_batch > 1;
  const Arguments pinned = sets({fmt::format("train.micro_batch={}", plan.decisions.micro_batch)});
  const auto look = [&](std::size_t i) {
    double work = 0;
    const Arguments arguments = pin && !all[i].batch ? both(pinned, all[i].arguments) : all[i].arguments;
    const std::optional<Outcome> outcome = unless_refused([&] {
      const Asked asked = with_arguments(input, arguments);
      Budget open = asked.budget;
      open.memory.reset();
      return outcome_of(asked, input, input.machine.machine, {asked.budget, open}, work);
    });
    if (outcome) planned[i] = LeverRow{all[i].name, arguments, *outcome, all[i].changes_result};
    return work;
  };
  json left_out = json::array();
  for (const std::size_t i :
       look_at_alternatives(all.size(), spent.work, space.effort().work, look, [&](std::size_t i) { planned[i].reset(); })) {
    left_out.push_back(all[i].name);
  }
  for (std::optional<LeverRow>& row : planned) {
    if (row) rows.push_back(std::move(*row));
  }
  const Outcome own = outcome_of(plan);
  std::vector<LeverRow> kept;
  for (LeverRow& row : rows) {
    const auto same = [&](const LeverRow& other) {
      return other.changes_result == row.changes_result && alike(other.outcome, row.outcome);
    };
    // More bytes for the same time are no useful effect.
    const bool in_vain =
        alike(row.outcome.seconds, own.seconds) && (row.outcome.process > own.process || alike(row.outcome, own));
    if (!in_vain && std::ranges::none_of(kept, same)) kept.push_back(std::move(row));
  }
  std::ranges::stable_sort(kept, {}, [](const LeverRow& row) { return row.outcome.seconds; });
  json list = json::array();
  for (const LeverRow& row : kept) {
    list.push_back({{"name", row.name},
                    {"arguments", row.arguments},
                    {"process_bytes", row.outcome.process.n},
                    {"update_seconds", row.outcome.seconds},
                    {"changes_result", row.changes_result},
                    {"within_budget", !input.budget.memory || row.outcome.process <= *input.budget.memory}});
  }
  object["levers"] = std::move(list);
  object["left_out"] = std::move(left_out);
}

}  // namespace plimsoll
