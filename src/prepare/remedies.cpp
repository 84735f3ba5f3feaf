#include "prepare/remedies.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/disk_folder.h"
#include "base/memory_limit.h"
#include "config/config_rules.h"
#include "config/image_rules.h"
#include "measure/measure_disk.h"
#include "prepare/leaving.h"
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

// Plans the changed configuration; empty if it does not fit. Measures no disk, which would take seconds.
std::optional<Outcome> try_change(const Alternative& alternative, const Config& config, const PlanningInput& input,
                                  const AskedPrompts& asked, bool floors_alone, double& work) {
  return unless_refused([&] {
    ChangedConfig changed = with_changes(input, alternative.changes);
    changed.request.floor_only = floors_alone;
    Machine machine = input.machine.machine;
    bool assumed = false;
    if (changed.config.memory.disk && !config.memory.disk) {
      assumed = !add_known_disk_tier(machine, *changed.config.memory.disk, config.plan.transfers, input.cache);
    }
    std::optional<Outcome> outcome = outcome_of(changed, input, machine, {changed.budget}, asked, work);
    if (outcome) {
      outcome->assumed_disk = assumed;
      outcome->floors_alone = floors_alone;
    }
    return outcome;
  });
}

}  // namespace

void add_remedies(json& object, const Config& config, const PlanningInput& input, Bytes floor, Bytes knee, const Spent& spent,
                  const AskedPrompts& asked) {
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
      const std::optional<Outcome> outcome = try_change(each, config, input, asked, floors_alone, work);
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

}  // namespace plimsoll
