#include "train/planning.h"

#include <malloc.h>

#include <fmt/format.h>
#include <sys/vfs.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "ops/op_catalogue.h"
#include "plan/build_plan.h"
#include "train/calibrate.h"
#include "train/cuda_machine.h"
#include "train/machine_facts.h"
#include "train/measure_disk.h"
#include "train/requests.h"
#include "train/simulated_machine.h"

namespace plimsoll {
namespace {

using nlohmann::json;

GraphSource source_of(const Config& config, DataFacts facts) {
  return [&config, facts](std::int64_t micro) { return build_training_graph(config, facts, micro).graph; };
}

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

PrecisionNames precision_names(const Config& config) {
  return {.compute = precision_name(config.precision.compute),
          .storage = precision_name(config.precision.parameters),
          .accumulation = precision_name(config.precision.gradients),
          .optimizer_state = precision_name(config.precision.optimizer_state)};
}

// Each lever alone, against the plan that keeps everything at the largest micro-batch.
json levers(const Config& config, const PlanningInput& input) {
  struct Lever {
    std::string name;
    std::vector<std::string> arguments;
    std::function<void(PlanRequest&)> apply;
    DType state = DType::f32;
  };
  const std::int64_t most = input.request.micro_batch.value_or(input.request.effective_batch);
  const auto keep = [&](PlanRequest& request) {
    request.optimizer_state = RestPolicy::memory;
    request.parameters = request.gradients = request.activations = RestPolicy::automatic;
    request.recompute = RecomputePolicy::none;
    request.loss_chunks = 1;
    request.micro_batch = most;
    request.group = 1;
  };
  const auto all_on_disk = [](PlanRequest& request) {
    request.optimizer_state = request.parameters = request.gradients = RestPolicy::disk;
  };
  const auto micro_one =
      both(set("train.micro_batch", "1"), set("train.accumulation", std::to_string(config.train.effective_batch)));
  constexpr std::int64_t kMostTogether = 8;
  std::int64_t together = 1;
  for (std::int64_t group = 2; group <= std::min(kMostTogether, input.request.effective_batch); ++group) {
    if (input.request.effective_batch % group == 0) together = group;
  }
  std::vector<Lever> all{{"keep everything", {}, keep},
                         {"loss in chunks", set("plan.loss_chunks", "16"), [&](PlanRequest& r) { keep(r), r.loss_chunks = 16; }},
                         {"recompute every block", set("plan.recompute", "all"),
                          [&](PlanRequest& r) { keep(r), r.recompute = RecomputePolicy::all; }},
                         {"micro-batch 1", micro_one, [&](PlanRequest& r) { keep(r), r.micro_batch = 1; }},
                         {"all of these", {}, [&](PlanRequest& r) {
                            r.micro_batch = 1;
                            r.group.reset();
                            r.recompute = RecomputePolicy::all;
                            r.loss_chunks = 16;
                            r.optimizer_state = r.parameters = r.gradients = r.activations = RestPolicy::automatic;
                            if (!input.request.beyond.empty()) all_on_disk(r);
                          }}};
  if (together > 1) {
    all.insert(all.end() - 1, {fmt::format("the same, {} through each block together", together),
                               both(micro_one, set("plan.group", std::to_string(together))),
                               [&](PlanRequest& r) { keep(r), r.micro_batch = 1, r.group = together; }});
  }
  if (may_narrow_state(config)) {
    all.insert(all.end() - 1, {"optimizer state in bf16", set("precision.optimizer_state", "bf16"), keep, DType::bf16});
  }
  if (!input.request.beyond.empty()) {
    const std::size_t first = input.request.beyond.front().n > 0 ? 1 : 2;
    const std::string tier = first < input.machine.machine.tiers.size() ? input.machine.machine.tiers[first].name : "disk";
    all.insert(all.end() - 1, {"optimizer state on the " + tier, set("plan.optimizer_state", "disk"), [&](PlanRequest& r) {
                                 keep(r), r.optimizer_state = RestPolicy::disk;
                                 r.parameters = r.gradients = RestPolicy::memory;
                               }});
    all.insert(all.end() - 1, {"parameters and gradients of the blocks, too",
                               both(set("plan.parameters", "disk"), set("plan.gradients", "disk")),
                               [&](PlanRequest& r) { keep(r), all_on_disk(r); }});
  }
  json list = json::array();
  for (const Lever& lever : all) {
    PlanRequest request = input.request;
    lever.apply(request);
    Config changed = config;
    if (lever.state != DType::f32) changed.precision.optimizer_state = lever.state;
    const std::optional<Outcome> outcome = outcome_of(changed, input, request, input.machine.machine, {});
    if (!outcome) continue;
    list.push_back({{"name", lever.name},
                    {"arguments", lever.arguments},
                    {"process_bytes", outcome->process.n},
                    {"update_seconds", outcome->seconds},
                    {"changes_result", request.micro_batch != most || changed.precision != config.precision}});
  }
  return list;
}

MemoryFact memory_of(const Machine& machine) {
  return {machine.tiers.front().capacity, fmt::format("the memory of {}", machine.name)};
}

// A simulated device shares it with its host.
MemoryFact memory_here(const Config& config) {
  MemoryFact fact = available_memory();
  if (config.device != DeviceChoice::sim || !config.memory.host_memory) return fact;
  return {std::max(Bytes{0}, fact.bytes - *config.memory.host_memory), fact.source + ", less what the host may take"};
}

// With the point that the budget gets. What does not fit has a knee and a ceiling, too.
void add_frontier(json& plan, PlanSpace& space, const Budget& budget, int most) {
  std::vector<Bytes> budgets;
  if (budget.memory) budgets.push_back(*budget.memory);
  plan["frontier"] = to_json(space.frontier(most, budgets));
  plan["bounds"]["knee_bytes"] = space.knee().n;
  plan["bounds"]["ceiling_bytes"] = space.ceiling().n;
}

}  // namespace

const OpKernels& kernels_of(const Machine& machine) {
  if (machine.instruction_set == kCudaInstructions) return kCudaKernels;
  return machine.libraries.empty() ? kOwnCpuKernels : kCpuKernels;
}

OpCatalogue catalogue_of(const MachineRecord& record) {
  return OpCatalogue(record.machine.rates, {record.kernel_seconds.begin(), record.kernel_seconds.end()},
                     kernels_of(record.machine));
}

namespace {

// What waits for a GPU's kernels would keep a ring's one thread from all the rest.
TransferPolicy transfers_for(const Config& config) {
  return config.device == DeviceChoice::cuda ? TransferPolicy::threads : config.plan.transfers;
}

}  // namespace

void settle_budget(Budget& budget, const MemoryFact& available, bool runs_now,
                   const std::function<void(const std::string&)>& say) {
  constexpr int kPercent = 95;
  if (!budget.memory) {
    budget.memory = Bytes{available.bytes.n / 100 * kPercent / kPage.n * kPage.n};
    if (say)
      say(fmt::format("no --memory: the budget is {}, {} % of {} ({})", to_text(*budget.memory), kPercent,
                      to_text(available.bytes), available.source));
  } else if (*budget.memory > available.bytes) {
    const std::string message = fmt::format("the budget is {}, the machine has {} ({})", to_text(*budget.memory),
                                            to_text(available.bytes), available.source);
    if (runs_now) {
      throw Error(ErrorKind::user, ExitCode::does_not_fit, "E-MEM-MACHINE", "--memory", message, "a budget that this machine has",
                  {fmt::format("--memory {}", available.bytes.n / kPage.n * kPage.n)});
    }
    if (say) say("note: " + message + ": this plan cannot run there now");
  }
}

PlanningInput planning_input(const Config& config, const std::filesystem::path& cache,
                             const std::function<void(const std::string&)>& say, const PlanningPlace& place) {
  PlanningInput input;
  input.request = plan_request(config);
  input.budget = plan_budget(config);
  input.data = open_data(config, cache);
  input.facts = input.data.facts();
  input.cache = cache;
  input.machine = place.machine ? *place.machine : calibrated_machine(config.threads, cache, say);
  if (!place.machine && config.device == DeviceChoice::cuda) input.machine = cuda_machine(input.machine, cache, say);
  const bool simulated = !place.machine && config.device == DeviceChoice::sim;
  if (simulated) simulate_device(input.machine.machine, cache, say);
  if (config.memory.disk) {
    add_disk_tier(input.machine.machine, *config.memory.disk, transfers_for(config), cache, say);
  }
  if (simulated) limit_links(input.machine.machine, config.links);
  input.request.beyond = rooms_beyond(input.budget, has_host(input.machine.machine));
  const bool elsewhere = place.machine || config.device == DeviceChoice::cuda;
  settle_budget(input.budget, elsewhere ? memory_of(input.machine.machine) : memory_here(config), place.runs_now, say);
  return input;
}

namespace {

// Planning copies graphs of megabytes hundreds of times, and what is given back in between comes zeroed again: a fifth of its
// time; its threads would wait for each other in one arena. The process that plans ends with it.
void keep_freed_memory() {
  ::mallopt(M_ARENA_MAX, 8);
  ::mallopt(M_TOP_PAD, 8 << 20);
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 64 << 20);
}

}  // namespace

PlanningResult plan_with_extras(const Config& config, const PlanningInput& input, const PlanExtras& extras) {
  keep_freed_memory();
  const double start = seconds_now();
  OpCatalogue catalogue = catalogue_of(input.machine);
  PlanSpace space(source_of(config, input.facts), input.request, input.machine.machine, catalogue);
  auto best = space.best(input.budget);
  const PlanContext context{input.budget, config_hash(config), precision_names(config), seconds_now() - start};
  PlanningResult result;
  json object;
  if (Plan* plan = std::get_if<Plan>(&best)) {
    object = to_json(*plan, context, extras.values);
    if (extras.levers) object["levers"] = levers(config, input);
    result.plan = std::move(*plan);
  } else {
    const Infeasible& infeasible = std::get<Infeasible>(best);
    object = to_json(infeasible, context, input.machine.machine.threads);
    object["infeasible"]["remedies"] = remedies(config, input, infeasible.floor);
  }
  if (extras.frontier_points > 0) add_frontier(object, space, input.budget, extras.frontier_points);
  result.text = object.dump(1);
  return result;
}

namespace {

// A plan goes in the micro-batches that it was made for, whatever a configuration or a run that is resumed asks for.
void check_replayed_batch(const PlanningInput& input, const PlanRecord& record) {
  const std::optional<std::int64_t> asked = input.request.micro_batch;
  if (!asked || *asked == record.decisions.micro_batch) return;
  throw config_error(
      "E-PLAN-REPLAY", "plan",
      fmt::format("the plan goes in micro-batches of {}, and {} are asked for", record.decisions.micro_batch, *asked),
      "a plan of the micro-batch that train.micro_batch says, or that the run began with",
      {fmt::format("plimsoll plan CONFIG --set train.micro_batch={} --out plan.json", *asked)});
}

Error stored_passes(std::string message, std::string disk) {
  return Error(ErrorKind::user, ExitCode::does_not_fit, "E-PLAN-FIT", "plan", std::move(message),
               "a budget that holds it, or a plan that was made for this one", {std::move(disk)});
}

}  // namespace

namespace {

bool fits_blocks(const PlanDecisions& decisions, const std::vector<GraphBlock>& blocks) {
  const auto count = static_cast<int>(blocks.size());
  const Paging& paging = decisions.paging;
  if (decisions.blocks.size() != blocks.size() || paging.activations > count || paging.resident > count) return false;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::vector<std::size_t>& again = decisions.blocks[i].choice.again;
    if (!again.empty() && again.back() >= blocks[i].nodes.size()) return false;
  }
  return true;
}

}  // namespace

PlanningResult replay_plan(const Config& config, const PlanningInput& input, const PlanRecord& record) {
  const double start = seconds_now();
  const Graph graph = build_training_graph(config, input.facts, record.decisions.micro_batch).graph;
  const std::vector<GraphBlock> blocks = find_blocks(graph);
  check_replayed_batch(input, record);
  if (record.decisions.paging.active() && input.request.beyond.empty()) {
    const bool host = has_host(input.machine.machine);
    throw stored_passes(
        fmt::format("the plan keeps a part of the training on {}, and none is given", host ? "the memory of a host" : "a disk"),
        host ? "--host-memory SIZE" : "--disk PATH:SIZE");
  }
  if (record.decisions.micro_batch * record.decisions.accumulation != input.request.effective_batch ||
      graph_hash(graph) != record.graph_hash || !fits_blocks(record.decisions, blocks) ||
      !are_possible(graph, record.decisions.replays) || !why_not_grouped(graph, blocks, record.decisions.group).empty()) {
    throw config_error("E-PLAN-REPLAY", "plan", "the plan was made for another model, batch or data format",
                       "a plan of this configuration", {"plimsoll plan CONFIG --out plan.json"});
  }
  OpCatalogue catalogue = catalogue_of(input.machine);
  PlanningResult result;
  result.plan = build_plan(graph, blocks, record.decisions, input.request, input.machine.machine, catalogue, &record.offsets);
  if (result.plan->plan_hash != record.plan_hash) {
    throw config_error("E-PLAN-REPLAY", "plan", "the plan was made on another machine, or the file was changed",
                       "a plan of this machine", {"plimsoll plan CONFIG --out plan.json"});
  }
  if (input.budget.memory && result.plan->process > *input.budget.memory) {
    throw Error(ErrorKind::user, ExitCode::does_not_fit, "E-PLAN-FIT", "plan",
                fmt::format("the plan needs {}, the budget is {}", to_text(result.plan->process), to_text(*input.budget.memory)),
                "a plan that was made for this budget", {"plimsoll plan CONFIG --memory SIZE --out plan.json"});
  }
  const std::size_t disk_tier = disk_of(input.machine.machine);
  const Bytes stored = disk_tier > 0 ? result.plan->stored[disk_tier] : Bytes{0};
  if (const Bytes disk = input.budget.disk.value_or(Bytes{0}); stored > disk) {
    throw stored_passes(fmt::format("the plan keeps {} on the disk, the budget is {}", to_text(stored), to_text(disk)),
                        "--disk PATH:" + std::to_string(stored.n));
  }
  const bool host_bounded = input.budget.host_memory && input.budget.host_memory->n > 0;
  if (result.plan->host > Bytes{0} && result.plan->stored[1] > Bytes{0} && !host_bounded) {
    throw stored_passes(
        fmt::format("the plan keeps {} in the memory of a host, and none is given", to_text(result.plan->stored[1])),
        "--host-memory " + std::to_string(result.plan->host.n));
  }
  if (host_bounded && result.plan->host > *input.budget.host_memory) {
    throw stored_passes(fmt::format("the plan needs {} of the host, the budget is {}", to_text(result.plan->host),
                                    to_text(*input.budget.host_memory)),
                        "--host-memory " + std::to_string(result.plan->host.n));
  }
  const PlanContext context{input.budget, config_hash(config), precision_names(config), seconds_now() - start};
  result.text = to_json(*result.plan, context, false).dump(1);
  return result;
}

}  // namespace plimsoll
