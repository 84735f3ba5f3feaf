#include "prepare/planning.h"

#include <fmt/core.h>
#include <malloc.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/child.h"
#include "base/clock.h"
#include "base/disk_folder.h"
#include "base/error.h"
#include "base/memory_limit.h"
#include "config/image_rules.h"
#include "data/order.h"
#include "device/machine_facts.h"
#include "device/process_memory.h"
#include "formats/tokenizer/tokenizer.h"
#include "measure/cuda_machine.h"
#include "measure/measure_disk.h"
#include "measure/measure_rank_link.h"
#include "measure/simulated_machine.h"
#include "models/family.h"
#include "models/model_graph.h"
#include "ops/op_catalogue.h"
#include "plan/build_plan.h"
#include "plan/node_kernels.h"
#include "plan/search/candidates.h"
#include "plan/search/resting.h"
#include "prepare/answers.h"
#include "prepare/bytes_written.h"
#include "prepare/levers.h"
#include "prepare/rank_plans.h"
#include "prepare/remedies.h"
#include "prepare/requests.h"
#include "prepare/run_length.h"
#include "weights/model_source.h"

namespace plimsoll {
namespace {

using nlohmann::json;

PrecisionNames precision_names(const Config& config) {
  return {.compute = precision_name(config.precision.compute),
          .storage = precision_name(config.precision.parameters),
          .accumulation = precision_name(config.precision.gradients),
          .optimizer_state = precision_name(config.precision.optimizer_state)};
}

MemoryFact memory_of(const Machine& machine) {
  return {machine.tiers.front().capacity, fmt::format("the memory of {}", machine.name)};
}

// A simulated device shares the memory with its host.
MemoryFact memory_here(const Config& config) {
  MemoryFact fact = available_memory();
  if (config.device != DeviceChoice::sim || !config.memory.host_memory) return fact;
  return {std::max(Bytes{0}, fact.bytes - *config.memory.host_memory), fact.source + ", less what the host may take"};
}

// Includes the point of the budget. Infeasible requests have a knee and a ceiling, too.
void add_frontier(json& plan, PlanSpace& space, const Budget& budget, int most, std::vector<Bytes> budgets) {
  if (budget.memory) budgets.push_back(*budget.memory);
  plan["frontier"] = to_json(space.frontier(most, budgets));
  plan["bounds"]["knee_bytes"] = space.knee().n;
  plan["bounds"]["ceiling_bytes"] = space.ceiling().n;
}

json subject_json(const Config& config, const Machine& machine) {
  const ModelConfig& model = config.model.config;
  const std::string name = !config.model.preset.empty() ? config.model.preset
                           : config.model.init.empty()  ? model.family().describe(model)
                                                        : config.model.init.filename().string();
  return {{"model", name},
          {"context", config.model.context},
          {"effective_batch", config.train.effective_batch},
          {"machine", machine.name},
          {"threads", machine.threads}};
}

// The words for data whose samples have no tokens.
void add_words(json& plan, const Config& config) {
  const DataWords& words = data_kind(config).words;
  if (words.sample == words.position) plan["words"] = {{"sample", words.sample}, {"rate", words.rate}};
}

// The conditions under which the basis of the plan was measured. `measured`: "alone", "shared" (with other work), "unknown" (an
// older file), or "described" (not measured here).
json machine_json(const MachineRecord& record, const Plan& plan) {
  std::int64_t kernels = 0;
  for (const Step& step : plan.timeline.steps) {
    if (record.shared_kernels.empty() || step.kind != Step::Kind::node) continue;
    const NodeRequest request =
        request_for(plan.graph, plan.graph.nodes[step.node], plan.threads, plan.decisions.loss_chunks, false);
    kernels += record.shared_kernels.contains(timing_key(request.request)) ? 1 : 0;
  }
  const std::optional<Sharing>& sharing = record.sharing;
  const bool described = !sharing && (record.build == "described" || record.build == "sim");
  const bool shared = kernels > 0 || (record.shared() && plan.costs_bound > 0);
  json object = {{"measured", described ? "described"
                              : shared  ? "shared"
                              : sharing ? "alone"
                                        : "unknown"},
                 {"others", nullptr},
                 {"stolen", nullptr},
                 {"waited", nullptr},
                 {"shared_kernels", kernels}};
  if (sharing) object.update({{"others", sharing->others}, {"stolen", sharing->stolen}, {"waited", sharing->waited}});
  return object;
}

// A transfer that waits for a GPU's kernels would block the single thread of a ring for all other transfers.
TransferPolicy transfers_for(const Config& config) {
  return config.device == DeviceChoice::cuda ? TransferPolicy::threads : config.plan.transfers;
}

// If kernels run in host memory, memory.budget is the budget for it.
void check_host_memory(const PlanningInput& input, const std::function<void(const std::string&)>& say) {
  if (!input.budget.host_memory || has_host(input.machine.machine)) return;
  if (wants_disk(input.request) && input.request.beyond.empty()) {
    throw config_error("E-CONFIG-MISSING", "memory.disk", "kernels run in the memory of the host, so nothing can rest there",
                       "a folder and a size for values outside memory, or a machine with a device",
                       {advised_disk("16GiB"), Change("machine.device", "sim")});
  }
  if (say) say("note: kernels run in the memory of the host, whose budget is memory.budget: memory.host_memory has no effect");
}

// The facts of existing files, and assumptions about the others.
DataFacts assumed_facts(const Config& config, const std::vector<AssumedData>& assumed, const std::filesystem::path& cache) {
  const DataKind& kind = data_kind(config);
  return {.row = kind.assumed_shape(data_request(config, cache), assumed),
          .validation = !config.data.validation.empty() || config.data.validation_share > 0,
          .packed = kind.own_lengths && config.batch.packing,
          .ragged = assumed_windows(config)};
}

std::string assumed_text(const std::vector<AssumedData>& assumed) {
  std::string text;
  for (const AssumedData& data : assumed) {
    if (data.there) {
      text += fmt::format("{} ({}) has not been rendered and tokenised yet: planned for samples of model.context tokens",
                          data.key, data.path);
      continue;
    }
    text += fmt::format("{}{} ({}) is not there: planned as for {}", text.empty() ? "" : "; ", data.key, data.path, data.as);
  }
  return text + (assumed.front().there ? "; `plimsoll train` does it once" : "; training needs the data");
}

json to_json(const std::vector<AssumedData>& assumed) {
  json list = json::array();
  for (const AssumedData& data : assumed) {
    list.push_back({{"key", data.key}, {"path", data.path}, {"format", data.format}});
    if (data.bytes.per_position > 0) {
      list.back()["bytes_per_token"] = data.bytes.per_position;
    } else {
      list.back()["bytes_per_sample"] = data.bytes.beside;
    }
  }
  return list;
}

// Checks that training would otherwise fail after the plan.
void check_model_files(const Config& config) {
  const std::filesystem::path &init = config.model.init, &vocabulary = config.data.vocabulary;
  check_model({init, config.model.config, config.adapter});
  if (!vocabulary.empty() && (vocabulary != init || config.data.format == "bpe")) Tokenizer::of_vocabulary(vocabulary);
}

// Mismatched weights and tokens train without an error.
void tell_other_vocabulary(const Config& config, const std::function<void(const std::string&)>& say) {
  const std::filesystem::path &init = config.model.init, &vocabulary = config.data.vocabulary;
  std::error_code ignored;
  const bool text = config.data.format == "bpe" || config.data.format == "chat" || config.data.format == "auto";
  if (!say || !text || init.empty() || vocabulary.empty() || std::filesystem::equivalent(init, vocabulary, ignored)) return;
  try {
    const std::string own = vocabulary_hash(init), given = vocabulary_hash(vocabulary);
    if (own.empty() || given.empty() || own == given) return;
  } catch (const Error&) {
    return;  // the reader of the vocabulary reports its faults
  }
  say(fmt::format("note: the text is tokenised with the vocabulary of {}, which differs from the vocabulary of {}",
                  vocabulary.string(), init.string()));
}

void tell_notes(const DataFiles& data, const std::function<void(const std::string&)>& say) {
  if (!say) return;
  for (const std::string& note : data.train->notes()) say("note: " + note);
  if (!data.validation) return;
  for (const std::string& note : data.validation->notes()) say("note: " + note);
}

// A plan runs only in the micro-batches that it was made for: E-PLAN-REPLAY if a configuration or a resumed run requests others.
void check_replayed_batch(const PlanningInput& input, const PlanRecord& record) {
  const std::optional<std::int64_t> asked = input.request.micro_batch;
  if (!asked || *asked == record.decisions.micro_batch) return;
  throw config_error("E-PLAN-REPLAY", "plan",
                     fmt::format("the plan has micro-batches of {}, and {} are requested", record.decisions.micro_batch, *asked),
                     "a plan with the micro-batch of train.micro_batch, or of the resumed run",
                     {Remedy::of_command("plan CONFIG", {{"train.micro_batch", *asked}, {"command.out", "plan.json"}})});
}

Error stored_passes(std::string message, Change budget) {
  return Error(ErrorKind::user, ExitCode::does_not_fit, "E-PLAN-FIT", "plan", std::move(message),
               "a budget that holds it, or a plan that was made for this one", {std::move(budget)});
}

bool fits_blocks(const PlanDecisions& decisions, const std::vector<Unit>& units) {
  const int count = block_count(units);
  return decisions.residency.inputs <= count && decisions.residency.kept() <= count;
}

}  // namespace

const OpKernels& kernels_of(const Machine& machine) {
  if (machine.backend == Backend::cuda) return kCudaKernels;
  return machine.libraries.empty() ? kOwnCpuKernels : kCpuKernels;
}

OpCatalogue catalogue_of(const MachineRecord& record) {
  return OpCatalogue(record.machine.rates, {record.kernel_seconds.begin(), record.kernel_seconds.end()},
                     kernels_of(record.machine), record.algorithms);
}

void settle_budget(Budget& budget, const MemoryFact& available, bool runs_now,
                   const std::function<void(const std::string&)>& say) {
  constexpr int kPercent = 95;
  const Bytes usual{available.bytes.n / 100 * kPercent / kPage.n * kPage.n};
  if (!budget.memory) {
    budget.memory = usual;
    if (say)
      say(fmt::format("no memory.budget: the budget is {}, {} % of {} ({})", to_text(*budget.memory), kPercent,
                      to_text(available.bytes), available.source));
  } else if (*budget.memory > available.bytes) {
    const std::string message = fmt::format("the budget is {}, the machine has {} ({})", to_text(*budget.memory),
                                            to_text(available.bytes), available.source);
    if (runs_now) {
      throw Error(ErrorKind::user, ExitCode::does_not_fit, "E-MEM-MACHINE", "memory.budget", message,
                  "a budget that this machine has", {Change("memory.budget", usual.n)});
    }
    if (say) say("note: " + message + ": this plan cannot run there now");
  }
}

DataFacts planned_facts(const Config& config, const std::filesystem::path& cache) {
  return assumed_facts(config, assume_missing_data(config), cache);
}

std::optional<Bytes> planning_memory(const Config& config, const PlanningPlace& place) {
  if (place.machine || config.device == DeviceChoice::cuda || !config.memory.budget) return {};
  return *config.memory.budget + config.memory.host_memory.value_or(Bytes{0});
}

namespace {

// A model of a folder has as many classes as the data, unless its head is new. The reader refuses labels past the classes.
void check_classes(const Config& config, const DataSet& data) {
  const ModelFacts facts = facts_of(config.model.config);
  const std::int64_t classes = data.classes();
  const bool of_folder = !config.model.init.empty() && !facts.new_head;
  if (facts.classes == 0 || !of_folder || classes == facts.classes) return;
  throw config_error("E-CONFIG-CLASSES", config.model.init.string(),
                     fmt::format("the model has {} classes, and the labels of {} are of {}", facts.classes, data.name(), classes),
                     "as many classes as the data have, or a new head", {Change("model.head", "new")});
}

}  // namespace

PlanningInput with_facts(const PlanningInput& input, const DataFacts& facts) {
  return {.request = input.request, .budget = input.budget, .machine = input.machine, .facts = facts};
}

PlanningInput planning_input(const Config& config, const std::filesystem::path& cache,
                             const std::function<void(const std::string&)>& say, const PlanningPlace& place) {
  PlanningInput input;
  if (place.begins) check_model_files(config);
  tell_other_vocabulary(config, say);
  input.request = plan_request(config);
  input.request.ranks = place.share.ranks;
  input.budget = plan_budget(config);
  if (!place.runs_now) {
    input.assumed = assume_missing_data(config);
    if (input.assumed.empty()) input.assumed = unprepared_data(config, cache);
  }
  if (input.assumed.empty()) {
    input.data = open_data(config, cache, place.tokens);
    tell_notes(input.data, say);
    const DataSet& train = *input.data.train;
    check_classes(config, train);
    if (input.data.validation) {
      input.recurring = train.check_validation(*input.data.validation, reading_of(config), config.train.evaluate_samples);
      const std::string text = input.recurring ? recurring_text(*input.recurring) : "";
      if (say && !text.empty()) say("note: " + text);
    }
    if (config.batch.packing && !train.own_lengths()) {
      throw config_error("E-CONFIG-CONFLICT", "batch.packing",
                         fmt::format("samples of format \"{}\" fill their rows", train.format()),
                         "samples of their own lengths, data.format = \"chat\"", {Change("batch.packing", "false")});
    }
    if (train.own_lengths() || config.train.effective_tokens > 0) input.epoch = epoch_facts(config, train);
    input.facts = facts_of(config, input.data, input.epoch ? ragged_windows(config, *input.epoch) : std::nullopt);
  } else {
    input.facts = assumed_facts(config, input.assumed, cache);
    if (say && place.tells_assumed) say("note: " + assumed_text(input.assumed));
  }
  input.facts.share = place.share;
  input.request.ragged = input.facts.ragged;
  input.cache = cache;
  input.machine = place.machine ? *place.machine : calibrated_machine(config.threads, cache, place.probe, say, place.repeat);
  if (!place.machine && config.device == DeviceChoice::cuda) input.machine = cuda_machine(input.machine, cache, say);
  const bool simulated = !place.machine && config.device == DeviceChoice::sim;
  if (simulated) simulate_device(input.machine.machine, cache, say);
  if (config.memory.disk) {
    add_disk_tier(input.machine.machine, *config.memory.disk, transfers_for(config), cache, say);
  }
  if (simulated) limit_links(input.machine.machine, config.links);
  if (!place.machine && config.device == DeviceChoice::cpu) {
    if (const std::optional<RankLink> link = kept_rank_link(cache)) input.machine.machine.rank_link = *link;
  }
  input.machine = machine_for_ranks(std::move(input.machine), place.share.ranks, place.peers);
  input.request.beyond = rooms_beyond(input.budget, has_host(input.machine.machine));
  check_host_memory(input, say);
  const bool elsewhere = place.machine || config.device == DeviceChoice::cuda;
  settle_budget(input.budget, elsewhere ? memory_of(input.machine.machine) : memory_here(config), place.runs_now, say);
  if (place.share.rank < 0) input.facts.share.rank = fullest_rank(config, input);
  return input;
}

// Planning copies graphs of megabytes hundreds of times. Memory that is given back in between returns zeroed, a fifth of the
// planning time, and threads would wait for each other in one arena. The process that plans ends with it.
void keep_freed_memory() {
  ::mallopt(M_ARENA_MAX, 8);
  // A limit counts memory that the heap takes in advance.
  ::mallopt(M_TOP_PAD, MemoryLimit::holds() ? 256 << 10 : 8 << 20);
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 64 << 20);
}

std::string plan_in_child(const std::function<std::string(bool floors_alone)>& work, const std::function<bool()>& stopped) {
  try {
    return run_in_child([&] { return work(false); }, stopped);
  } catch (const Error& error) {
    if (error.code != "E-MEM-PLAN") throw;
  }
  return run_in_child([&] { return work(true); }, stopped);
}

namespace {

// The plans of a stage of ZeRO, which is one of the facts.
struct StagePlans {
  StagePlans(const Config& config, const PlanningInput& of_stage, KernelCatalogue& catalogue)
      : space(source_of(config, of_stage.facts), of_stage.request, of_stage.machine.machine, catalogue),
        plans(best_for_ranks(config, of_stage, space)) {}

  PlanSpace space;
  RankPlans plans;
};

// True if `plans` are better than those of an earlier stage: fewer seconds or, if neither fits, a smaller floor.
bool better(const RankPlans& plans, const RankPlans& than) {
  const Plan *own = std::get_if<Plan>(&plans.best), *other = std::get_if<Plan>(&than.best);
  if (own != nullptr && other != nullptr) return own->update_seconds < (1 - kLeastGain) * other->update_seconds;
  if (own != nullptr || other != nullptr) return own != nullptr;
  return std::get<Infeasible>(plans.best).floor < std::get<Infeasible>(than.best).floor;
}

Bytes& floor_of(RankPlans& plans) {
  if (Plan* plan = std::get_if<Plan>(&plans.best)) return plan->floor;
  return std::get<Infeasible>(plans.best).floor;
}

// The plans of the configuration's stage, or else of the fastest one that fits. The floor is that of the stage with the least.
std::unique_ptr<StagePlans> best_stage(const Config& config, const PlanningInput& input, KernelCatalogue& catalogue) {
  std::unique_ptr<StagePlans> best;
  Bytes least;
  each_stage(config, input.facts, input.request, [&](const DataFacts& facts, const PlanRequest& request) {
    PlanningInput of_stage = with_facts(input, facts);
    of_stage.request = request;
    auto stage = std::make_unique<StagePlans>(config, of_stage, catalogue);
    least = best ? std::min(least, floor_of(stage->plans)) : floor_of(stage->plans);
    if (!best || better(stage->plans, best->plans)) best = std::move(stage);
  });
  floor_of(best->plans) = least;
  return best;
}

}  // namespace

PlanningResult plan_with_extras(const Config& config, const PlanningInput& input, const PlanExtras& extras) {
  keep_freed_memory();
  const double start = seconds_now();
  const Bytes resident = anonymous_resident();
  OpCatalogue catalogue = catalogue_of(input.machine);
  std::unique_ptr<StagePlans> stage = best_stage(config, input, catalogue);
  PlanSpace& space = stage->space;
  auto& best = stage->plans.best;
  const Spent spent{extras.work, space.effort().work, anonymous_resident() - resident};
  const PlanContext context{input.budget,          config_hash(config), precision_names(config),
                            seconds_now() - start, stat_batch(config),  pixels_of(config)};
  PlanningResult result;
  json object;
  const AskedPrompts asked = extras.answers ? asked_prompts(config, input) : AskedPrompts{{}, "an instance has none"};
  if (Plan* plan = std::get_if<Plan>(&best)) {
    PlannedAnswers answers;
    if (extras.answers) answers = plan_answers(config, input, *plan, catalogue, asked);
    if (answers.plan) {
      *plan = *std::move(answers.plan);
      result.prompts = asked.found;
    }
    object = to_json(*plan, context, extras.values);
    if (answers.plan) object["samples"] = samples_json(*plan, result.prompts);
    if (!answers.left_out.empty()) object["samples"] = samples_left_out(answers.left_out);
    add_ranks(object, stage->plans.ranks, *plan, input.machine.machine.rank_link);
    const RunTimes times = times_of(config, input, *plan);
    object["run"] = run_json(config, input, *plan, times);
    add_times(object, config, *plan, times);
    if (input.epoch) object["epoch"] = epoch_json(*input.epoch, *input.data.train, config.model.context);
    if (const auto& recurring = input.recurring) {
      object["validation"] = {{"samples", recurring->samples}, {"recurring", recurring->recurring}};
    }
    object["written"] = written_json(config, *plan);
    object["run_folder"] = run_folder_json(config, *plan);
    object["machine"] = machine_json(input.machine, *plan);
  } else {
    object = to_json(std::get<Infeasible>(best), context, input.machine.machine.threads);
  }
  if (input.request.floor_only) object["floors_alone"] = true;
  object["subject"] = subject_json(config, input.machine.machine);
  add_words(object, config);
  if (!input.assumed.empty()) object["assumed"] = to_json(input.assumed);
  if (extras.decided) extras.decided(object);
  if (Plan* plan = std::get_if<Plan>(&best)) {
    if (extras.levers && input.source) add_levers(object, config, input, space, *plan, spent, asked);
    result.plan = std::move(*plan);
  }
  if (extras.frontier_points > 0) add_frontier(object, space, input.budget, extras.frontier_points, extras.frontier_budgets);
  if (!result.plan && input.source) {
    const Bytes floor = std::get<Infeasible>(best).floor, knee = space.knee();
    stage.reset();  // remedies take its memory
    add_remedies(object, config, input, floor, knee, spent, asked);
  }
  result.text = object.dump(1);
  return result;
}

PlanningResult replay_plan(const Config& config, const PlanningInput& input, const PlanRecord& record) {
  const double start = seconds_now();
  DataFacts facts = input.facts;
  facts.answers = shape_of(record.decisions.answers);
  facts.zero = record.decisions.zero;
  const Graph graph = build_training_graph(config, facts, record.decisions.micro_batch).graph;
  const std::vector<Unit> units = find_units(graph);
  check_replayed_batch(input, record);
  if (record.decisions.residency.active() && input.request.beyond.empty()) {
    const bool host = has_host(input.machine.machine);
    throw stored_passes(
        fmt::format("the plan keeps a part of the training on {}, and none is given", host ? "the memory of a host" : "a disk"),
        host ? Change("memory.host_memory", "2GiB") : advised_disk("16GiB"));
  }
  if (record.decisions.accumulation != input.request.accumulation(record.decisions.micro_batch) ||
      graph_hash(graph) != record.graph_hash || !fits_blocks(record.decisions, units) ||
      !are_possible(graph, record.decisions.replays) || !why_not_grouped(graph, units, record.decisions.group).empty()) {
    throw config_error("E-PLAN-REPLAY", "plan", "the plan was made for another model, batch or data format",
                       "a plan of this configuration", {new_plan()});
  }
  if (const auto asked = config.parallel.zero; facts.share.ranks > 1 && asked && *asked != record.decisions.zero) {
    throw config_error("E-PLAN-REPLAY", "plan",
                       fmt::format("the plan has stage {} of ZeRO, parallel.zero is {}", record.decisions.zero, *asked),
                       "a plan of this configuration", {new_plan()});
  }
  OpCatalogue catalogue = catalogue_of(input.machine);
  PlanningResult result;
  result.plan = build_plan(graph, units, record.decisions, input.request, input.machine.machine, catalogue, &record.offsets);
  if (result.plan->plan_hash != record.plan_hash) {
    throw config_error("E-PLAN-REPLAY", "plan",
                       "the plan was made on another machine, or before its kernels were measured, or "
                       "the file was changed",
                       "a plan of this machine", {new_plan()});
  }
  if (input.budget.memory && result.plan->process > *input.budget.memory) {
    throw Error(ErrorKind::user, ExitCode::does_not_fit, "E-PLAN-FIT", "plan",
                fmt::format("the plan needs {}, the budget is {}", to_text(result.plan->process), to_text(*input.budget.memory)),
                "a plan that was made for this budget", {new_plan()});
  }
  const Bytes stored = result.plan->stored[disk_of(input.machine.machine)];
  if (const Bytes disk = input.budget.disk.value_or(Bytes{0}); stored > disk) {
    throw stored_passes(fmt::format("the plan keeps {} on the disk, the budget is {}", to_text(stored), to_text(disk)),
                        {"memory.disk", fmt::format("{}:{}", config.memory.disk->folder.string(), stored.n)});
  }
  const bool host_bounded = input.budget.host_memory && input.budget.host_memory->n > 0;
  const Bytes on_host = result.plan->stored[tier_of(result.plan->tiers, TierKind::host)];
  if (result.plan->host > Bytes{0} && on_host > Bytes{0} && !host_bounded) {
    throw stored_passes(fmt::format("the plan keeps {} in the memory of a host, and none is given", to_text(on_host)),
                        {"memory.host_memory", result.plan->host.n});
  }
  if (host_bounded && result.plan->host > *input.budget.host_memory) {
    throw stored_passes(fmt::format("the plan needs {} of the host, the budget is {}", to_text(result.plan->host),
                                    to_text(*input.budget.host_memory)),
                        {"memory.host_memory", result.plan->host.n});
  }
  const PlanContext context{input.budget,          config_hash(config), precision_names(config),
                            seconds_now() - start, stat_batch(config),  pixels_of(config)};
  json object = to_json(*result.plan, context, false);
  add_ranks(object, bytes_of_ranks(config, with_facts(input, facts), *result.plan), *result.plan,
            input.machine.machine.rank_link);
  add_times(object, config, *result.plan, times_of(config, input, *result.plan));
  add_words(object, config);
  if (input.epoch) object["epoch"] = epoch_json(*input.epoch, *input.data.train, config.model.context);
  object["written"] = written_json(config, *result.plan);
  object["run_folder"] = run_folder_json(config, *result.plan);
  object["machine"] = machine_json(input.machine, *result.plan);
  if (record.decisions.answers.active()) {
    result.prompts = asked_prompts(config, input).found;
    object["samples"] = samples_json(*result.plan, result.prompts);
  } else if (shown_samples(config) > 0) {
    object["samples"] = samples_left_out("the plan file has none");
  }
  result.text = object.dump(1);
  return result;
}

}  // namespace plimsoll
