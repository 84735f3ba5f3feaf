#include "train/alternatives.h"

#include <fmt/format.h>
#include <sys/vfs.h>

#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/tasks.h"
#include "train/config_rules.h"
#include "train/measure_disk.h"
#include "train/requests.h"

namespace plimsoll {
namespace {

using nlohmann::json;

using Arguments = std::vector<std::string>;  // of the command line, in pairs

// One change to a configuration that might make it fit.
struct Change {
  std::string text;
  Arguments arguments;
  bool changes_result = false;
};

// "--set a=1 --set b=2" for {"a=1", "b=2"}.
Arguments sets(std::initializer_list<std::string> assignments) {
  Arguments arguments;
  for (const std::string& each : assignments) arguments.insert(arguments.end(), {"--set", each});
  return arguments;
}

Arguments both(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string_view optimizer_text(const OptimizerChoice& optimizer) {
  switch (optimizer.kind) {
    case OptimizerKind::adamw: return "AdamW";
    case OptimizerKind::lion: return "Lion";
    case OptimizerKind::sgd: return "SGD with momentum";
    case OptimizerKind::adafactor: return "Adafactor";
  }
  return "";
}

// A folder for temporary files that is on a disk, not in memory, and has room; empty where there is none.
std::filesystem::path disk_for(Bytes bytes) {
  constexpr long kTmpfs = 0x01021994, kRamfs = 0x858458f6;  // statfs(2)
  for (const char* folder : {"/var/tmp", "/tmp"}) {
    struct statfs facts {};
    if (::statfs(folder, &facts) != 0 || facts.f_type == kTmpfs || facts.f_type == kRamfs) continue;
    if (static_cast<double>(facts.f_bavail) * static_cast<double>(facts.f_bsize) >= static_cast<double>(bytes.n)) return folder;
  }
  return {};
}

bool keeps_state(const Config& config) { return has_state(config.optimizer.kind, config.optimizer.momentum > 0); }
bool may_narrow_state(const Config& config) { return keeps_state(config) && config.precision.optimizer_state == DType::f32; }

// What a user may change, cheapest for the result first.
std::vector<Change> possible_changes(const Config& config, const PlanRequest& request, Bytes floor, Bytes state, bool host) {
  std::vector<Change> changes;
  if (request.recompute != RecomputePolicy::automatic) {
    changes.push_back({"let the planner choose what is recomputed", sets({"plan.recompute=auto"})});
  }
  if (request.loss_chunks) changes.push_back({"let the planner choose the loss chunks", sets({"plan.loss_chunks=auto"})});
  if (request.group) {
    changes.push_back({"let the planner choose how many micro-batches go together", sets({"plan.group=auto"})});
  }
  if (request.micro_batch) {
    // The effective batch may be known from the two that are taken back.
    const Arguments automatic = sets(
        {fmt::format("train.effective_batch={}", request.effective_batch), "train.micro_batch=auto", "train.accumulation=auto"});
    changes.push_back({"let the planner choose micro-batch and accumulation (same effective batch)", automatic});
    if (request.recompute != RecomputePolicy::automatic || request.loss_chunks || request.group) {
      changes.push_back({"let the planner choose everything",
                         both(automatic, sets({"plan.recompute=auto", "plan.loss_chunks=auto", "plan.group=auto"}))});
    }
  }
  if (request.beyond.empty() && request.optimizer_state != RestPolicy::memory && state.n > 0) {
    const Bytes room = align_up(state, kGiB);
    const std::filesystem::path folder = disk_for(state);
    if (host) {
      changes.push_back({"optimizer state in the memory of the host", {"--host-memory", std::to_string(room.n)}});
    } else if (!folder.empty()) {
      changes.push_back(
          {"optimizer state on the disk", {"--disk", fmt::format("{}:{}", (folder / "plimsoll").string(), room.n)}});
    }
  }
  changes.push_back({"a larger budget: this configuration's floor", {"--memory", std::to_string(floor.n)}});
  if (may_narrow_state(config)) {
    changes.push_back({"optimizer state in bf16", sets({"precision.optimizer_state=bf16"}), true});
  }
  for (const std::int64_t divisor : {2, 4}) {
    const std::int64_t context = config.model.context / divisor;
    if (context < 8) continue;
    changes.push_back({fmt::format("samples of {} tokens instead of {}", context, config.model.context),
                       sets({fmt::format("model.context={}", context)}), true});
  }
  if (!keeps_state(config)) return changes;
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
  changes.push_back(
      {fmt::format("SGD without momentum instead of {}", optimizer_text(config.optimizer)), std::move(arguments), true});
  return changes;
}

// What a command would plan with more arguments.
struct Asked {
  Config config;
  PlanRequest request;
  Budget budget;
};

Asked with_arguments(const Config& config, const PlanningInput& input, const Arguments& arguments) {
  Arguments assignments;
  BudgetOptions budgets;
  for (std::size_t i = 0; i < arguments.size(); i += 2) {
    const std::string &option = arguments[i], &value = arguments[i + 1];
    if (option == "--set") assignments.push_back(value);
    if (option == "--memory") budgets.memory = value;
    if (option == "--host-memory") budgets.host_memory = value;
    if (option == "--disk") budgets.disk = value;
  }
  Asked asked{config, {}, {}};
  asked.config.train.micro_batch = input.request.micro_batch;  // which a run that is resumed may have decided
  asked.config = with_settings(std::move(asked.config), assignments, budgets);
  // A shorter sample beside rows of positions that stay: only random weights let the rows shrink as well.
  if (asked.config.model.init.empty()) asked.config.model.shape.context = asked.config.model.context;
  asked.request = plan_request(asked.config);
  asked.budget = plan_budget(asked.config);
  if (!asked.budget.memory) asked.budget.memory = input.budget.memory;
  asked.request.beyond = rooms_beyond(asked.budget, has_host(input.machine.machine));
  return asked;
}

struct Outcome {
  Bytes process;
  double seconds;
};

// What it comes to; empty where it does not fit, or asks for what cannot be (a disk that is too small for the state).
std::optional<Outcome> outcome_of(const Asked& asked, const PlanningInput& input, const Machine& machine, const Budget& budget) {
  try {
    OpCatalogue catalogue = catalogue_of(input.machine);
    PlanSpace space(source_of(asked.config, input.facts), asked.request, machine, catalogue);
    if (const Plan* plan = space.fastest(budget)) return Outcome{plan->process, plan->update_seconds};
  } catch (const Error& error) {
    if (error.kind == ErrorKind::internal) throw;
  }
  return {};
}

// Plans the changed configuration; empty where it does not fit either.
std::optional<Outcome> try_change(const Change& change, const Config& config, const PlanningInput& input) {
  const Asked asked = with_arguments(config, input, change.arguments);
  Machine machine = input.machine.machine;
  if (asked.config.memory.disk && !config.memory.disk) {
    try {  // its parent exists and is the same disk
      const DiskBudget beside{asked.config.memory.disk->folder.parent_path(), asked.config.memory.disk->size};
      add_disk_tier(machine, beside, config.plan.transfers, input.cache, nullptr);
    } catch (const Error&) {
      return {};  // full or not to be written: no remedy
    }
  }
  return outcome_of(asked, input, machine, asked.budget);
}

// What optimizer state would take on a disk.
Bytes state_of(const Config& config, const PlanningInput& input) {
  const Graph graph = build_training_graph(config, input.facts, 1).graph;
  return stored_layout(apply_paging(graph, {}, {kStoredAlignment.n, 2})).total();
}

}  // namespace

json remedies(const Config& config, const PlanningInput& input, Bytes floor) {
  constexpr std::size_t kMost = 4;
  json list = json::array();
  for (const Change& change :
       possible_changes(config, input.request, floor, state_of(config, input), has_host(input.machine.machine))) {
    const std::optional<Outcome> outcome = try_change(change, config, input);
    if (!outcome) continue;
    list.push_back({{"text", change.text},
                    {"arguments", change.arguments},
                    {"process_bytes", outcome->process.n},
                    {"update_seconds", outcome->seconds},
                    {"changes_result", change.changes_result}});
    if (list.size() == kMost) break;
  }
  return list;
}

namespace {

struct Lever {
  std::string name;
  Arguments arguments;  // to a plan that keeps everything; with enough memory they lead to this plan or to a faster one
};

// What rests on the next tier, from what is read least often.
std::vector<Lever> tier_levers(const std::string& tier) {
  return {
      {"optimizer state on the " + tier, sets({"plan.optimizer_state=disk", "plan.parameters=memory", "plan.gradients=memory"})},
      {"parameters and gradients of the blocks, too",
       sets({"plan.optimizer_state=disk", "plan.parameters=disk", "plan.gradients=disk"})},
      {"blocks made again from inputs on the " + tier,
       sets({"plan.optimizer_state=disk", "plan.activations=disk", "plan.recompute=all"})}};
}

// Narrower numbers and smaller state: what changes results beyond their rounding by another split of the batch.
std::vector<Lever> number_levers(const Config& config) {
  std::vector<Lever> list;
  if (config.precision.compute == DType::f32) {
    list.push_back({"products in bf16", sets({"precision.compute=bf16"})});
    if (config.precision.parameters == DType::f32) {
      list.push_back({"weights in bf16, too", sets({"precision.compute=bf16", "precision.parameters=bf16"})});
    }
  }
  if (!may_narrow_state(config)) return list;
  list.push_back({"optimizer state in bf16", sets({"precision.optimizer_state=bf16"})});
  list.push_back({"optimizer state in 8bit", sets({"precision.optimizer_state=8bit"})});
  if (config.optimizer.kind == OptimizerKind::adamw && !config.schedule.momentum && !config.optimizer.half_lives) {
    list.push_back({"Adafactor instead of AdamW", sets({"optimizer.name=adafactor"})});
  }
  return list;
}

std::vector<Lever> all_levers(const Config& config, const PlanningInput& input) {
  constexpr std::int64_t kMostTogether = 8;
  const std::int64_t batch = input.request.effective_batch;
  std::int64_t together = 1;
  for (std::int64_t group = 2; group <= std::min(kMostTogether, batch); ++group) {
    if (batch % group == 0) together = group;
  }
  const Arguments micro_one = sets({"train.micro_batch=1", fmt::format("train.accumulation={}", batch)});
  std::vector<Lever> list{{"keep everything", {}},
                          {"loss in chunks", sets({"plan.loss_chunks=16"})},
                          {"recompute every block", sets({"plan.recompute=all"})},
                          {"micro-batch 1", micro_one}};
  const auto add = [&](const std::vector<Lever>& more) { list.insert(list.end(), more.begin(), more.end()); };
  if (together > 1) {
    list.push_back({fmt::format("the same, {} through each block together", together),
                    both(micro_one, sets({fmt::format("plan.group={}", together)}))});
  }
  Arguments everything = both(micro_one, sets({"plan.group=auto", "plan.recompute=all", "plan.loss_chunks=16"}));
  if (!input.request.beyond.empty()) {
    const std::size_t first = input.request.beyond.front().n > 0 ? 1 : 2;
    const std::vector<Tier>& tiers = input.machine.machine.tiers;
    add(tier_levers(first < tiers.size() ? tiers[first].name : "disk"));
    everything = both(std::move(everything), sets({"plan.optimizer_state=disk", "plan.parameters=disk", "plan.gradients=disk"}));
  }
  list.push_back({"all of these", std::move(everything)});
  add(number_levers(config));
  return list;
}

// Those of a plan that keeps everything at one micro-batch size, which the planner need not be told.
constexpr std::pair<std::string_view, std::string_view> kKept[] = {
    {"plan.recompute", "none"},  {"plan.loss_chunks", "1"},  {"plan.group", "1"},         {"plan.optimizer_state", "memory"},
    {"plan.parameters", "auto"}, {"plan.gradients", "auto"}, {"plan.activations", "auto"}};

Arguments keep_everything(std::int64_t micro_batch) {
  Arguments arguments = sets({fmt::format("train.micro_batch={}", micro_batch)});
  for (const auto& [key, value] : kKept) arguments = both(std::move(arguments), sets({fmt::format("{}={}", key, value)}));
  return arguments;
}

// What the configuration decides by hand and a lever does not decide.
Arguments taken_back(const Config& config, const Arguments& arguments) {
  Arguments list;
  for (const auto& [key, value] : kKept) {
    const auto decides = [&, key = key](const std::string& argument) { return argument.starts_with(fmt::format("{}=", key)); };
    const ConfigKey& known = config_key(key);
    const bool by_hand = text_of(known, config) != text_of(known, {});
    if (by_hand && std::ranges::none_of(arguments, decides)) list = both(std::move(list), sets({fmt::format("{}=auto", key)}));
  }
  return list;
}

}  // namespace

json levers(const Config& config, const PlanningInput& input) {
  const std::int64_t most = input.request.micro_batch.value_or(input.request.effective_batch);
  const std::vector<Lever> all = all_levers(config, input);
  std::vector<json> rows(all.size());
  run_tasks(all.size(), [&](std::size_t i) {
    const Asked asked = with_arguments(config, input, both(keep_everything(most), all[i].arguments));
    const std::optional<Outcome> outcome = outcome_of(asked, input, input.machine.machine, {});
    if (!outcome) return;
    const bool numbers = asked.config.precision != config.precision || asked.config.optimizer.kind != config.optimizer.kind;
    rows[i] = {{"name", all[i].name},
               {"arguments", both(all[i].arguments, taken_back(config, all[i].arguments))},
               {"process_bytes", outcome->process.n},
               {"update_seconds", outcome->seconds},
               {"changes_result", numbers || asked.request.micro_batch != most}};
  });
  json list = json::array();
  for (json& row : rows) {
    if (!row.is_null()) list.push_back(std::move(row));
  }
  return list;
}

}  // namespace plimsoll
