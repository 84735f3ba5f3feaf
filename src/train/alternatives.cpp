#include "train/alternatives.h"

#include <fmt/format.h>
#include <sys/vfs.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/tasks.h"
#include "train/measure_disk.h"
#include "train/requests.h"

namespace plimsoll {
namespace {

using nlohmann::json;

// One change to a configuration that might make it fit: the arguments of the command line, and the same done to the struct.
struct Change {
  std::string text;
  std::vector<std::string> arguments;
  bool changes_result = false;
  std::function<void(Config&, PlanRequest&, Budget&)> apply;
};

std::vector<std::string> set(const std::string& key, const std::string& value) { return {"--set", key + "=" + value}; }

std::vector<std::string> both(std::vector<std::string> a, const std::vector<std::string>& b) {
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
    changes.push_back({"let the planner choose what is recomputed", set("plan.recompute", "auto"), false,
                       [](Config&, PlanRequest& r, Budget&) { r.recompute = RecomputePolicy::automatic; }});
  }
  if (request.loss_chunks) {
    changes.push_back({"let the planner choose the loss chunks", set("plan.loss_chunks", "auto"), false,
                       [](Config&, PlanRequest& r, Budget&) { r.loss_chunks.reset(); }});
  }
  if (request.group) {
    changes.push_back({"let the planner choose how many micro-batches go together", set("plan.group", "auto"), false,
                       [](Config&, PlanRequest& r, Budget&) { r.group.reset(); }});
  }
  if (request.micro_batch) {
    // The effective batch may be known from the two that are taken back.
    const std::vector<std::string> automatic = both(set("train.effective_batch", std::to_string(request.effective_batch)),
                                                    both(set("train.micro_batch", "auto"), set("train.accumulation", "auto")));
    changes.push_back({"let the planner choose micro-batch and accumulation (same effective batch)", automatic, false,
                       [](Config&, PlanRequest& r, Budget&) { r.micro_batch.reset(); }});
    if (request.recompute != RecomputePolicy::automatic || request.loss_chunks || request.group) {
      const std::vector<std::string> others =
          both(set("plan.recompute", "auto"), both(set("plan.loss_chunks", "auto"), set("plan.group", "auto")));
      changes.push_back(
          {"let the planner choose everything", both(automatic, others), false, [](Config&, PlanRequest& r, Budget&) {
             r.micro_batch.reset();
             r.recompute = RecomputePolicy::automatic;
             r.loss_chunks.reset();
             r.group.reset();
           }});
    }
  }
  if (request.beyond.empty() && request.optimizer_state != RestPolicy::memory && state.n > 0) {
    if (host) {
      changes.push_back({"optimizer state in the memory of the host",
                         {"--host-memory", std::to_string(align_up(state, kGiB).n)},
                         false,
                         [size = align_up(state, kGiB)](Config&, PlanRequest& r, Budget& b) {
                           b.host_memory = size;
                           r.beyond = rooms_beyond(b, /*host=*/true);
                         }});
    }
    const DiskBudget disk{disk_for(state) / "plimsoll", align_up(state, kGiB)};
    if (!host && disk.folder.is_absolute())
      changes.push_back({"optimizer state on the disk",
                         {"--disk", fmt::format("{}:{}", disk.folder.string(), disk.size.n)},
                         false,
                         [disk](Config& c, PlanRequest& r, Budget& b) {
                           c.memory.disk = disk;
                           b.disk = disk.size;
                           r.beyond = rooms_beyond(b, /*host=*/false);
                         }});
  }
  changes.push_back({"a larger budget: this configuration's floor",
                     {"--memory", std::to_string(floor.n)},
                     false,
                     [floor](Config&, PlanRequest&, Budget& budget) { budget.memory = floor; }});
  if (may_narrow_state(config)) {
    changes.push_back({"optimizer state in bf16", set("precision.optimizer_state", "bf16"), true,
                       [](Config& c, PlanRequest&, Budget&) { c.precision.optimizer_state = DType::bf16; }});
  }
  for (const std::int64_t divisor : {2, 4}) {
    const std::int64_t context = config.model.context / divisor;
    if (context < 8) continue;
    changes.push_back({fmt::format("samples of {} tokens instead of {}", context, config.model.context),
                       set("model.context", std::to_string(context)), true,
                       [context](Config& c, PlanRequest& r, Budget&) { c.model.context = r.units_per_sample = context; }});
  }
  if (keeps_state(config)) {
    std::vector<std::string> arguments = both(set("optimizer.name", "sgd"), set("optimizer.momentum", "0"));
    if (config.schedule.momentum) arguments = both(std::move(arguments), set("schedule.momentum_range", "none"));
    if (config.optimizer.half_lives) arguments = both(std::move(arguments), set("optimizer.half_lives", "none"));
    PrecisionSettings precision = config.precision;
    precision.optimizer_state = DType::f32;
    if (!precision.has_narrow_numbers()) precision.rounding = Rounding::stochastic;
    if (precision.optimizer_state != config.precision.optimizer_state) {
      arguments = both(std::move(arguments), set("precision.optimizer_state", "fp32"));
    }
    if (precision.rounding != config.precision.rounding) {
      arguments = both(std::move(arguments), set("precision.rounding", "stochastic"));
    }
    changes.push_back({fmt::format("SGD without momentum instead of {}", optimizer_text(config.optimizer)), std::move(arguments),
                       true, [precision](Config& c, PlanRequest&, Budget&) {
                         c.optimizer.kind = OptimizerKind::sgd;
                         c.optimizer.momentum = 0;
                         c.schedule.momentum.reset();
                         c.precision = precision;
                       }});
  }
  return changes;
}

struct Outcome {
  Bytes process;
  double seconds;
};

// What a request comes to; empty where it does not fit, or asks for what cannot be (a disk that is too small for the state).
std::optional<Outcome> outcome_of(const Config& config, const PlanningInput& input, const PlanRequest& request,
                                  const Machine& machine, const Budget& budget) {
  try {
    OpCatalogue catalogue = catalogue_of(input.machine);
    PlanSpace space(source_of(config, input.facts), request, machine, catalogue);
    if (const Plan* plan = space.fastest(budget)) return Outcome{plan->process, plan->update_seconds};
  } catch (const Error& error) {
    if (error.kind == ErrorKind::internal) throw;
  }
  return {};
}

// Plans the changed configuration; empty where it does not fit either.
std::optional<Outcome> try_change(const Change& change, const Config& config, const PlanningInput& input) {
  Config changed = config;
  PlanRequest request = input.request;
  Budget budget = input.budget;
  change.apply(changed, request, budget);
  // A shorter sample beside rows of positions that stay: only random weights let the rows shrink as well.
  if (changed.model.context != config.model.context && changed.model.init.empty()) {
    changed.model.shape.context = changed.model.context;
  }
  Machine machine = input.machine.machine;
  if (changed.memory.disk && !config.memory.disk) {
    try {  // its parent exists and is the same disk
      const DiskBudget beside{changed.memory.disk->folder.parent_path(), changed.memory.disk->size};
      add_disk_tier(machine, beside, config.plan.transfers, input.cache, nullptr);
    } catch (const Error&) {
      return {};  // full or not to be written: no remedy
    }
  }
  return outcome_of(changed, input, request, machine, budget);
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
  std::vector<std::string> arguments;  // with them and memory enough the planner comes to this, or to what is faster
  std::function<void(Config&, PlanRequest&)> apply;  // to a plan that keeps everything at the largest micro-batch
};

void keep_everything(PlanRequest& request, std::int64_t micro_batch) {
  request.optimizer_state = RestPolicy::memory;
  request.parameters = request.gradients = request.activations = RestPolicy::automatic;
  request.recompute = RecomputePolicy::none;
  request.loss_chunks = 1;
  request.micro_batch = micro_batch;
  request.group = 1;
}

// What rests on the next tier, from what is read least often.
std::vector<Lever> tier_levers(const std::string& tier) {
  const auto state = set("plan.optimizer_state", "disk");
  return {{"optimizer state on the " + tier, both(state, both(set("plan.parameters", "memory"), set("plan.gradients", "memory"))),
           [](Config&, PlanRequest& r) {
             r.optimizer_state = RestPolicy::disk;
             r.parameters = r.gradients = RestPolicy::memory;
           }},
          {"parameters and gradients of the blocks, too",
           both(state, both(set("plan.parameters", "disk"), set("plan.gradients", "disk"))),
           [](Config&, PlanRequest& r) { r.optimizer_state = r.parameters = r.gradients = RestPolicy::disk; }},
          {"blocks made again from inputs on the " + tier,
           both(state, both(set("plan.activations", "disk"), set("plan.recompute", "all"))), [](Config&, PlanRequest& r) {
             r.optimizer_state = r.activations = RestPolicy::disk;
             r.recompute = RecomputePolicy::all;
           }}};
}

// Narrower numbers and smaller state: what changes results beyond their rounding by another split of the batch.
std::vector<Lever> number_levers(const Config& config) {
  std::vector<Lever> list;
  if (config.precision.compute == DType::f32) {
    const auto products = set("precision.compute", "bf16");
    list.push_back({"products in bf16", products, [](Config& c, PlanRequest&) { c.precision.compute = DType::bf16; }});
    if (config.precision.parameters == DType::f32) {
      list.push_back({"weights in bf16, too", both(products, set("precision.parameters", "bf16")),
                      [](Config& c, PlanRequest&) { c.precision.compute = c.precision.parameters = DType::bf16; }});
    }
  }
  if (!may_narrow_state(config)) return list;
  for (const auto& [text, dtype] : {std::pair("bf16", DType::bf16), std::pair("8bit", DType::u8)}) {
    list.push_back({fmt::format("optimizer state in {}", text), set("precision.optimizer_state", text),
                    [dtype = dtype](Config& c, PlanRequest&) { c.precision.optimizer_state = dtype; }});
  }
  if (config.optimizer.kind == OptimizerKind::adamw && !config.schedule.momentum && !config.optimizer.half_lives) {
    list.push_back({"Adafactor instead of AdamW", set("optimizer.name", "adafactor"),
                    [](Config& c, PlanRequest&) { c.optimizer.kind = OptimizerKind::adafactor; }});
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
  const auto micro_one = both(set("train.micro_batch", "1"), set("train.accumulation", std::to_string(batch)));
  const auto chunks = set("plan.loss_chunks", "16"), again = set("plan.recompute", "all");
  std::vector<Lever> list{{"keep everything", {}, [](Config&, PlanRequest&) {}},
                          {"loss in chunks", chunks, [](Config&, PlanRequest& r) { r.loss_chunks = 16; }},
                          {"recompute every block", again, [](Config&, PlanRequest& r) { r.recompute = RecomputePolicy::all; }},
                          {"micro-batch 1", micro_one, [](Config&, PlanRequest& r) { r.micro_batch = 1; }}};
  const auto add = [&](std::vector<Lever> more) { list.insert(list.end(), more.begin(), more.end()); };
  if (together > 1) {
    list.push_back({fmt::format("the same, {} through each block together", together),
                    both(micro_one, set("plan.group", std::to_string(together))), [together](Config&, PlanRequest& r) {
                      r.micro_batch = 1;
                      r.group = together;
                    }});
  }
  auto everything = both(micro_one, both(again, chunks));
  if (!input.request.beyond.empty()) {
    const std::size_t first = input.request.beyond.front().n > 0 ? 1 : 2;
    const std::vector<Tier>& tiers = input.machine.machine.tiers;
    add(tier_levers(first < tiers.size() ? tiers[first].name : "disk"));
    everything = both(std::move(everything), both(set("plan.optimizer_state", "disk"),
                                                  both(set("plan.parameters", "disk"), set("plan.gradients", "disk"))));
  }
  list.push_back({"all of these", everything, [away = !input.request.beyond.empty()](Config&, PlanRequest& r) {
                    r.micro_batch = 1;
                    r.group.reset();
                    r.recompute = RecomputePolicy::all;
                    r.loss_chunks = 16;
                    r.optimizer_state = r.parameters = r.gradients = away ? RestPolicy::disk : RestPolicy::automatic;
                  }});
  add(number_levers(config));
  return list;
}

// What the request decides by hand and a lever takes back or decides otherwise.
std::vector<std::string> taken_back(const PlanRequest& request, const std::vector<std::string>& arguments) {
  const std::pair<const char*, bool> keys[] = {{"plan.recompute", request.recompute != RecomputePolicy::automatic},
                                               {"plan.loss_chunks", request.loss_chunks.has_value()},
                                               {"plan.group", request.group.has_value()},
                                               {"plan.optimizer_state", request.optimizer_state != RestPolicy::automatic},
                                               {"plan.parameters", request.parameters != RestPolicy::automatic},
                                               {"plan.gradients", request.gradients != RestPolicy::automatic},
                                               {"plan.activations", request.activations != RestPolicy::automatic}};
  std::vector<std::string> list;
  for (const auto& [key, decided] : keys) {
    const auto sets = [&, key = key](const std::string& argument) { return argument.starts_with(std::string(key) + "="); };
    if (decided && std::ranges::none_of(arguments, sets)) list = both(std::move(list), set(key, "auto"));
  }
  return list;
}

}  // namespace

json levers(const Config& config, const PlanningInput& input) {
  const std::int64_t most = input.request.micro_batch.value_or(input.request.effective_batch);
  const std::vector<Lever> all = all_levers(config, input);
  std::vector<json> rows(all.size());
  run_tasks(all.size(), [&](std::size_t i) {
    Config changed = config;
    PlanRequest request = input.request;
    keep_everything(request, most);
    all[i].apply(changed, request);
    const std::optional<Outcome> outcome = outcome_of(changed, input, request, input.machine.machine, {});
    if (!outcome) return;
    const bool rounds = request.micro_batch != most || changed.precision != config.precision;
    rows[i] = {{"name", all[i].name},
               {"arguments", both(all[i].arguments, taken_back(input.request, all[i].arguments))},
               {"process_bytes", outcome->process.n},
               {"update_seconds", outcome->seconds},
               {"changes_result", rounds || changed.optimizer.kind != config.optimizer.kind}};
  });
  json list = json::array();
  for (json& row : rows) {
    if (!row.is_null()) list.push_back(std::move(row));
  }
  return list;
}

}  // namespace plimsoll
