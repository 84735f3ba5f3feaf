#include "prepare/alternatives.h"

#include <fmt/core.h>
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
#include <variant>
#include <vector>

#include "base/disk_folder.h"
#include "base/error.h"
#include "base/memory_limit.h"
#include "base/tasks.h"
#include "config/config_rules.h"
#include "config/image_rules.h"
#include "measure/measure_disk.h"
#include "plan/search/candidates.h"
#include "prepare/model_changes.h"
#include "prepare/rank_plans.h"
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
  std::error_code error;
  if (::access(folder.c_str(), W_OK | X_OK) != 0 || lies_in_memory(folder)) return {};
  const std::uintmax_t free = std::filesystem::space(folder, error).available;
  return error ? Bytes{} : Bytes{static_cast<std::int64_t>(std::min(free, std::uintmax_t{1} << 61))};
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

// Alternatives of one kind, the smallest change first; the first that fits is enough. Kinds that keep the results come first.
struct Kind {
  std::vector<Alternative> alternatives;
  bool free = false;  // changes no result and needs no further resource of the machine
};

// The decisions made by hand apart from the micro-batch, each undone.
std::vector<Alternative> automatic_choices(const PlanRequest& request) {
  std::vector<Alternative> list;
  if (request.recompute != RecomputePolicy::automatic) {
    list.push_back({"let the planner choose the recomputation", {{"plan.recompute", "auto"}}});
  }
  if (request.loss_chunks) list.push_back({"let the planner choose the loss chunks", {{"plan.loss_chunks", "auto"}}});
  if (request.group) {
    list.push_back({"let the planner choose how many micro-batches go together", {{"plan.group", "auto"}}});
  }
  return list;
}

// More processes that train together, each with the budget and its share of the optimizer's state.
std::vector<Alternative> more_ranks(const PlanningInput& input) {
  std::vector<Alternative> list;
  constexpr int kMost = 8;
  const std::int64_t micro_batches = input.request.effective_batch / input.request.micro_batch.value_or(input.request.row_step);
  for (int ranks = 2 * input.facts.share.ranks; input.other_ranks && ranks <= std::min<std::int64_t>(kMost, micro_batches);
       ranks *= 2) {
    list.push_back({fmt::format("{} ranks, each with this budget", ranks), {{kRanks, ranks}}});
  }
  return list;
}

// Undoes the micro-batch. The effective batch may follow from the two keys that are undone.
Changes automatic_split(const Config& config, const PlanRequest& request) {
  if (!request.micro_batch) return {};
  if (request.ragged) return {{"train.micro_batch", "auto"}};
  return both({{"train.effective_batch", request.effective_batch}, {"train.micro_batch", "auto"}, {"train.accumulation", "auto"}},
              same_groups(config));
}

// Undoes all decisions made by hand; empty if there are none.
Changes all_automatic(const Config& config, const PlanRequest& request) {
  Changes changes = automatic_split(config, request);
  for (const Alternative& choice : automatic_choices(request)) changes.push_back(choice.changes.front());
  return changes;
}

// Undoes the micro-batch alone, then all decisions.
std::vector<Alternative> automatic_batch(const Config& config, const PlanRequest& request) {
  if (!request.micro_batch) return {};
  std::vector<Alternative> list{
      {"let the planner choose micro-batch and accumulation (same effective batch)", automatic_split(config, request)}};
  if (!automatic_choices(request).empty()) list.push_back({"let the planner choose everything", all_automatic(config, request)});
  return list;
}

Change disk_change(const std::filesystem::path& folder, Bytes size) {
  return {"memory.disk", fmt::format("{}:{}", folder.string(), budget_text(size))};
}

// Room for values that leave memory: on a host if the machine has one, else on a disk. The given disk may be too small.
std::optional<Alternative> more_room(const Config& config, const PlanningInput& input, const Leaving& leaving) {
  if (leaving.state.n == 0) return {};
  // The inputs of blocks may leave memory as well.
  const Bytes most = rounded_room(leaving.all * 2);
  const std::vector<Bytes> rooms{most, rounded_room(leaving.all), rounded_room(leaving.state)};
  if (config.memory.disk) {
    const DiskBudget& given = *config.memory.disk;
    const Bytes free = free_on_disk(existing_folder(given.folder));
    if (given.size >= most || free < most) return {};
    return Alternative{"more room on the disk", {disk_change(given.folder, most)}};
  }
  if (!input.request.beyond.empty()) return {};
  if (has_host(input.machine.machine)) {
    return Alternative{"a part of the training in the memory of the host", {{"memory.host_memory", budget_text(most + kGiB)}}};
  }
  const std::optional<DiskBudget> disk = proposed_disk(input.runs, rooms);
  if (!disk) return {};
  return Alternative{"a part of the training on the disk", {disk_change(disk->folder, disk->size)}};
}

std::vector<Alternative> rooms_beyond_memory(const Config& config, const PlanningInput& input, const Leaving& leaving) {
  std::optional<Alternative> alone = more_room(config, input, leaving);
  if (!alone) return {};
  if (input.request.optimizer_state == RestPolicy::memory) alone->changes.emplace_back("plan.optimizer_state", "auto");
  std::vector<Alternative> list{*alone};
  const Changes automatic = both(alone->changes, all_automatic(config, input.request));
  if (automatic.size() > alone->changes.size()) {
    list.push_back({alone->text + ", and let the planner choose everything", automatic});
  }
  for (const Alternative& shorter : shorter_samples(config)) {
    list.push_back({alone->text + ", and " + shorter.text, both(automatic, shorter.changes), true});
  }
  return list;
}

// The knee, or the memory of the machine if that is less and still enough.
Alternative more_memory(const PlanningInput& input, Bytes floor, Bytes knee) {
  const Bytes here = Bytes{input.machine.machine.tiers.front().capacity.n / kMiB.n * kMiB.n};
  if (here < knee && here >= floor) return {"all the memory of this machine", {{"memory.budget", budget_text(here)}}};
  const std::string text = here < floor ? "more memory than this machine has: from here on more gains little"
                                        : "more memory: from here on more gains little (the knee)";
  return {text, {{"memory.budget", budget_text(align_up(knee, kMiB))}}};
}

std::vector<Alternative> narrower_state(const Config& config) {
  if (!may_narrow_state(config)) return {};
  return {{"optimizer state in bf16", {{"precision.optimizer_state", "bf16"}}, true},
          {"optimizer state in 8bit", {{"precision.optimizer_state", "8bit"}}, true}};
}

std::vector<Alternative> narrower_numbers(const Config& config) {
  std::vector<Alternative> list = narrower_state(config);
  const PrecisionSettings& precision = config.precision;
  if (list.empty() || precision.parameters != DType::f32 || precision.compute == DType::f16 ||
      precision.rounding != Rounding::stochastic) {
    return list;
  }
  list.push_back({"weights, gradients and optimizer state in bf16",
                  {{"precision.compute", "bf16"},
                   {"precision.parameters", "bf16"},
                   {"precision.gradients", "bf16"},
                   {"precision.optimizer_state", "bf16"}},
                  true});
  return list;
}

std::vector<Alternative> no_state(const Config& config) {
  if (!keeps_state(config)) return {};
  Changes changes{{"optimizer.name", "sgd"}, {"optimizer.momentum", 0}};
  if (config.schedule.momentum) changes.emplace_back("schedule.momentum_range", "none");
  if (config.optimizer.half_lives) changes.emplace_back("optimizer.half_lives", "none");
  if (config.precision.optimizer_state != DType::f32) changes.emplace_back("precision.optimizer_state", "fp32");
  const bool narrow = config.precision.parameters != DType::f32 || config.precision.gradients != DType::f32;
  if (!narrow && config.precision.rounding != Rounding::stochastic) changes.emplace_back("precision.rounding", "stochastic");
  return {{fmt::format("SGD without momentum instead of {}", optimizer_text(config.optimizer)), std::move(changes), true}};
}

struct Outcome {
  Bytes process;
  double seconds = 0;
  std::int64_t micro_batch = 1;
  bool assumed_disk = false;  // the disk has not been measured
  bool floors_alone = false;  // the memory limit had no room for other plans; planning the change alone may find a faster one
};

Outcome outcome_of(const Plan& plan) { return {plan.process, plan.update_seconds, plan.decisions.micro_batch}; }

// The outcome of a change; empty if it does not fit. Throws if the change is impossible, such as a disk that is too small for
// the state.
std::optional<Outcome> outcome_of(const ChangedConfig& changed, const PlanningInput& input, const Machine& machine,
                                  const std::vector<Budget>& budgets, double& work) {
  OpCatalogue catalogue = catalogue_of(input.machine);
  MachineRecord record = input.machine;
  record.machine = machine;
  record = machine_for_ranks(std::move(record), changed.facts.share.ranks);
  const int ranks = changed.facts.share.ranks;
  if (ranks == 1) {
    PlanSpace space(source_of(changed.config, changed.facts), changed.request, record.machine, catalogue);
    work += space.effort().work;
    for (const Budget& budget : budgets) {
      if (const Plan* plan = space.fastest(budget)) return outcome_of(*plan);
    }
    return {};
  }
  std::optional<Outcome> best;
  for (const Budget& budget : budgets) {
    const PlanningInput of_ranks{.request = changed.request, .budget = budget, .machine = record, .facts = changed.facts};
    each_stage(changed.config, ranks, [&](const Config& config) {
      PlanSpace space(source_of(config, changed.facts), changed.request, record.machine, catalogue);
      work += space.effort().work;
      const RankPlans plans = best_for_ranks(config, of_ranks, space);
      const Plan* plan = std::get_if<Plan>(&plans.best);
      if (plan != nullptr && (!best || plan->update_seconds < (1 - kLeastGain) * best->seconds)) best = outcome_of(*plan);
    });
    if (best) break;
  }
  return best;
}

// The outcome of an attempt; empty also if the configuration refuses the change.
template <class Try>
std::optional<Outcome> unless_refused(const Try& attempt) {
  try {
    return attempt();
  } catch (const Error& error) {
    if (error.kind == ErrorKind::internal) throw;
    return {};
  }
}

// Plans the changed configuration; empty if it does not fit. Measures no disk, which would take seconds.
std::optional<Outcome> try_change(const Alternative& alternative, const Config& config, const PlanningInput& input,
                                  bool floors_alone, double& work) {
  return unless_refused([&] {
    ChangedConfig changed = with_changes(input, alternative.changes);
    changed.request.floor_only = floors_alone;
    Machine machine = input.machine.machine;
    bool assumed = false;
    if (changed.config.memory.disk && !config.memory.disk) {
      assumed = !add_known_disk_tier(machine, *changed.config.memory.disk, config.plan.transfers, input.cache);
    }
    std::optional<Outcome> outcome = outcome_of(changed, input, machine, {changed.budget}, work);
    if (outcome) {
      outcome->assumed_disk = assumed;
      outcome->floors_alone = floors_alone;
    }
    return outcome;
  });
}

// Runs body(i), which returns its work, for one alternative after the other, as long as the expected work of the next ones and
// the `work` so far stay within the limit. The expected work of one is the smaller of `each`, the work of the plan that it
// changes, and the largest work so far. The first one runs in any case if there was no work before. Some run in parallel; the
// selection does not depend on the number of threads. Returns the skipped ones. `floors_alone`, if given, becomes true when the
// memory limit has no room for one; this one and the following ones then get their smallest plans alone.
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

// Moves values to the next tier, the least often read first.
std::vector<Alternative> tier_levers(const std::string& tier) {
  return {{"optimizer state on the " + tier,
           {{"plan.optimizer_state", "disk"}, {"plan.parameters", "memory"}, {"plan.gradients", "memory"}}},
          {"parameters and gradients of the blocks, too",
           {{"plan.optimizer_state", "disk"}, {"plan.parameters", "disk"}, {"plan.gradients", "disk"}}},
          {"blocks made again from inputs on the " + tier,
           {{"plan.optimizer_state", "disk"}, {"plan.activations", "disk"}, {"plan.recompute", "all"}}}};
}

// Narrower numbers and smaller state. Another split of the batch changes the rounding of sums alone; these change more.
std::vector<Alternative> number_levers(const Config& config) {
  std::vector<Alternative> list;
  if (config.precision.compute == DType::f32) {
    list.push_back({"products in bf16", {{"precision.compute", "bf16"}}, true});
    if (config.precision.parameters == DType::f32) {
      list.push_back({"weights in bf16, too", {{"precision.compute", "bf16"}, {"precision.parameters", "bf16"}}, true});
    }
  }
  if (!may_narrow_state(config)) return list;
  std::ranges::move(narrower_state(config), std::back_inserter(list));
  if (config.optimizer.kind == OptimizerKind::adamw && !config.schedule.momentum && !config.optimizer.half_lives) {
    list.push_back({"Adafactor instead of AdamW", {{"optimizer.name", "adafactor"}}, true});
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
std::vector<Alternative> model_levers(const Config& config, const PlanningInput& input) {
  std::vector<Alternative> list = new_adapters(config);
  const auto add = [&](std::vector<Alternative> more) { std::ranges::move(more, std::back_inserter(list)); };
  add(other_ranks(config));
  add(other_bases(config));
  if (std::vector<Alternative> shorter = shorter_samples(config); !shorter.empty()) add({std::move(shorter.front())});
  add(longer_samples(config));
  add(frozen_parts(config, input));
  return list;
}

// Statistics of fewer samples, and of none.
std::vector<Alternative> other_statistics(const Config& config, const PlanRequest& request) {
  if (stat_batch(config) == 0) return {};
  std::vector<Alternative> list;
  for (std::int64_t group = request.row_step / 2; group > 1; group /= 2) {
    if (request.row_step % group != 0) break;
    list.push_back({fmt::format("statistics of {} samples", group), {{"norm.stat_batch", group}}, true});
  }
  if (!config.model.init.empty()) {
    list.push_back({"the running statistics of the folder", {{"norm.statistics", "running"}, {"norm.stat_batch", "auto"}}, true});
  }
  return list;
}

// Each lever decides one thing differently from the plan.
std::vector<Alternative> all_levers(const Config& config, const PlanningInput& input, const PlanDecisions& decisions) {
  const std::int64_t batch = input.request.effective_batch;
  std::vector<Alternative> list{{"recompute nothing", {{"plan.recompute", "none"}}},
                                {"recompute every block", {{"plan.recompute", "all"}}}};
  const auto add = [&](const std::vector<Alternative>& more) { list.insert(list.end(), more.begin(), more.end()); };
  list.push_back(decisions.loss_chunks == 1 ? Alternative{"loss in 16 chunks", {{"plan.loss_chunks", 16}}}
                                            : Alternative{"loss in one piece", {{"plan.loss_chunks", 1}}});
  for (const std::int64_t micro : other_micro_batches(batch, decisions.micro_batch)) {
    if (micro % input.request.row_step != 0) continue;
    Changes changes{{"train.micro_batch", micro}};
    if (config.train.effective_tokens == 0 && !config.batch.packing) changes.emplace_back("train.accumulation", batch / micro);
    list.push_back({fmt::format("micro-batch {}", micro), both(std::move(changes), same_groups(config)), true});
  }
  const std::int64_t together = many_together(decisions.accumulation);
  if (decisions.group > 1) {
    list.push_back({"one micro-batch after the other", {{"plan.group", 1}}});
  } else if (together > 1) {
    list.push_back({fmt::format("{} micro-batches through a block together", together), {{"plan.group", together}}});
  }
  if (!input.request.beyond.empty()) {
    const std::size_t first = input.request.beyond.front().n > 0 ? 1 : 2;
    const std::vector<Tier>& tiers = input.machine.machine.tiers;
    list.push_back({"everything in memory",
                    {{"plan.optimizer_state", "memory"},
                     {"plan.parameters", "auto"},
                     {"plan.gradients", "auto"},
                     {"plan.activations", "auto"}}});
    add(tier_levers(first < tiers.size() ? tiers[first].name : "disk"));
  }
  add(number_levers(config));
  add(model_levers(config, input));
  return list;
}

struct Lever {
  Alternative alternative;
  Outcome outcome;
};

// Smaller and larger budgets, which the plan's own search answers.
std::vector<Lever> budget_levers(PlanSpace& space, const PlanningInput& input, const Plan& plan) {
  const std::tuple<const char*, const char*, Bytes> points[] = {{"the floor", "less memory: the floor", plan.floor},
                                                                {"the knee", "less memory: the knee", plan.knee},
                                                                {"the ceiling", "less memory: the ceiling", plan.ceiling}};
  std::vector<Lever> rows;
  for (const auto& [point, less, bytes] : points) {
    Budget budget = input.budget;
    budget.memory = align_up(bytes, kMiB);
    const Plan* found = space.fastest(budget);
    if (found == nullptr) continue;
    const std::string name = found->process < plan.process ? less : fmt::format("more memory: {}", point);
    rows.push_back(
        {{name, {{"memory.budget", budget_text(*budget.memory)}}, found->decisions.micro_batch != plan.decisions.micro_batch},
         outcome_of(*found)});
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

Leaving leaving_of(const Config& config, const PlanningInput& input) {
  const Graph graph = build_training_graph(config, input.facts, input.request.row_step).graph;
  Residency residency{.pages = {kStoredAlignment.n, 2}, .optimizer_state = kBeyond};
  const Bytes state = stored_layout(apply_paging(graph, {}, residency)).total();
  Bytes all = state;
  // Parameters and accumulators may rest on other tiers as well.
  for (const Value& value : graph.values) {
    if (value.persistent() && (value.role == Role::parameter || value.role == Role::accumulator)) all += value.bytes();
  }
  return {all, state};
}

void add_remedies(json& object, const Config& config, const PlanningInput& input, Bytes floor, Bytes knee, const Spent& spent) {
  const std::vector<Kind> kinds{{automatic_choices(input.request), true},
                                {automatic_batch(config, input.request), true},
                                {rooms_beyond_memory(config, input, leaving_of(config, input))},
                                {{more_memory(input, floor, knee)}},
                                {more_ranks(input)},
                                {narrower_numbers(config)},
                                {other_bases(config)},
                                {other_ranks(config)},
                                {shorter_samples(config)},
                                {frozen_parts(config, input)},
                                {other_statistics(config, input.request)},
                                {new_adapters(config)},
                                {no_state(config)}};
  struct Found {
    int rank;  // order of the cost other than seconds
    double seconds;
    json object;
  };
  // A remedy takes about as much memory as the request itself, with a disk up to three times as much.
  const std::optional<Bytes> room = MemoryLimit::room();
  bool floors_alone = input.request.floor_only || (room && *room < spent.memory * 3);
  std::vector<std::optional<Found>> found(kinds.size());
  std::vector<std::size_t> looked(kinds.size());  // number of alternatives looked at, per kind
  const auto look = [&](std::size_t i) {
    double work = 0;
    for (looked[i] = 0; looked[i] < kinds[i].alternatives.size() && work < kMostAlternativeWork;) {
      const Alternative& each = kinds[i].alternatives[looked[i]++];
      const std::optional<Outcome> outcome = try_change(each, config, input, floors_alone, work);
      if (!outcome) continue;
      const int rank = kinds[i].free ? 0 : static_cast<int>(i) + (each.changes_result ? static_cast<int>(kinds.size()) : 0);
      found[i] = Found{rank,
                       outcome->seconds,
                       {{"text", each.text},
                        {"changes", to_json(each.changes)},
                        {"process_bytes", outcome->process.n},
                        {"update_seconds", outcome->seconds},
                        {"changes_result", each.changes_result}}};
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
  look_at_alternatives(kinds.size(), spent.work, spent.own, look, forget, &floors_alone);
  json left_out = json::array();
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (found[i]) continue;
    for (std::size_t c = looked[i]; c < kinds[i].alternatives.size(); ++c) left_out.push_back(kinds[i].alternatives[c].text);
  }
  std::vector<Found> helpful;
  for (std::optional<Found>& remedy : found) {
    if (remedy) helpful.push_back(std::move(*remedy));
  }
  std::ranges::stable_sort(helpful, {}, [](const Found& remedy) { return std::pair(remedy.rank, remedy.seconds); });
  json list = json::array();
  for (Found& remedy : helpful) list.push_back(std::move(remedy.object));
  object["infeasible"]["remedies"] = std::move(list);
  object["left_out"] = std::move(left_out);
}

void add_levers(json& object, const Config& config, const PlanningInput& input, PlanSpace& space, const Plan& plan,
                const Spent& spent) {
  std::vector<Lever> rows = budget_levers(space, input, plan);
  const std::vector<Alternative> all = all_levers(config, input, plan.decisions);
  std::vector<std::optional<Lever>> planned(all.size());
  // Levers on other keys keep the micro-batch, and with it the bits.
  const bool pin = !input.request.micro_batch && input.request.effective_batch > 1;
  const Changes pinned{{"train.micro_batch", plan.decisions.micro_batch}};
  const auto look = [&](std::size_t i) {
    double work = 0;
    Alternative lever = all[i];
    if (pin && lever.changes.front().key != pinned.front().key) {
      const bool groups = std::ranges::find(lever.changes, "norm.stat_batch", &Change::key) != lever.changes.end();
      lever.changes = both(groups ? pinned : both(pinned, same_groups(config)), lever.changes);
    }
    const std::optional<Outcome> outcome = unless_refused([&] {
      const ChangedConfig changed = with_changes(input, lever.changes);
      Budget open = changed.budget;
      open.memory.reset();
      return outcome_of(changed, input, input.machine.machine, {changed.budget, open}, work);
    });
    if (outcome) planned[i] = Lever{std::move(lever), *outcome};
    return work;
  };
  json left_out = json::array();
  for (const std::size_t i :
       look_at_alternatives(all.size(), spent.work, spent.own, look, [&](std::size_t i) { planned[i].reset(); })) {
    left_out.push_back(all[i].text);
  }
  for (std::optional<Lever>& row : planned) {
    if (row) rows.push_back(std::move(*row));
  }
  const Outcome own = outcome_of(plan);
  std::vector<Lever> kept;
  for (Lever& row : rows) {
    const auto same = [&](const Lever& other) {
      return other.alternative.changes_result == row.alternative.changes_result && alike(other.outcome, row.outcome);
    };
    // More bytes for the same time are no useful effect.
    const bool in_vain =
        alike(row.outcome.seconds, own.seconds) && (row.outcome.process > own.process || alike(row.outcome, own));
    if (!in_vain && std::ranges::none_of(kept, same)) kept.push_back(std::move(row));
  }
  std::ranges::stable_sort(kept, {}, [](const Lever& row) { return row.outcome.seconds; });
  json list = json::array();
  for (const Lever& row : kept) {
    list.push_back({{"name", row.alternative.text},
                    {"changes", to_json(row.alternative.changes)},
                    {"process_bytes", row.outcome.process.n},
                    {"update_seconds", row.outcome.seconds},
                    {"changes_result", row.alternative.changes_result},
                    {"within_budget", !input.budget.memory || row.outcome.process <= *input.budget.memory}});
  }
  object["levers"] = std::move(list);
  object["left_out"] = std::move(left_out);
}

}  // namespace plimsoll
