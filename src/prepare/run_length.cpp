#include "prepare/run_length.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/ceil_div.h"
#include "data/token_place.h"
#include "measure/measure_disk.h"
#include "prepare/answers.h"
#include "prepare/bytes_written.h"
#include "weights/checkpoint.h"

namespace plimsoll {
namespace {

using nlohmann::json;

json or_null(std::optional<std::int64_t> number) { return number ? json(*number) : json(nullptr); }

// The seconds of one evaluation with its answers; absent if the data are missing. The ranks take its batches in turn.
std::optional<double> evaluate_seconds(const Config& config, const PlanningInput& input, const Plan& plan) {
  const PhasePlan* pass = find_phase(plan, "evaluate");
  if (pass == nullptr) return 0;
  if (!input.data.validation) return {};
  const std::int64_t batches = evaluation_batches(config, *input.data.validation, plan.decisions.micro_batch);
  return static_cast<double>(ceil_div(batches, std::int64_t{input.facts.share.ranks})) * pass->seconds +
         answer_seconds(config, plan);
}

// The last evaluation always follows the last update.
std::int64_t evaluations_of(const Config& config, const PlanningInput& input) {
  if (!input.facts.validation) return 0;
  const std::int64_t every = evaluation_interval(config), before = config.train.updates - 1;
  return (every > 0 ? before / every : 0) + 1;
}

// Bytes per second into the folder of runs.
double save_rate(const PlanningInput& input) {
  return known_disk_rate(input.runs, input.machine.machine.threads, input.cache).value_or(kAssumedDiskRate);
}

double noise_seconds(const Plan& plan) {
  const PhasePlan* pass = find_phase(plan, "noise");
  return pass == nullptr ? 0 : pass->seconds;
}

// If the data are missing, samples fill their rows, unless they have lengths of their own, which are unknown.
RunCounts counts_of(const Config& config, const PlanningInput& input, const Plan& plan) {
  if (input.data.train) return counts_of_run(config, *input.data.train, input.epoch ? &*input.epoch : nullptr);
  const std::int64_t tokens = config.train.updates * plan.units_per_update;
  return {.samples = config.train.updates * config.train.effective_batch, .units = tokens, .positions = tokens};
}

}  // namespace

const PhasePlan* find_phase(const Plan& plan, std::string_view name) {
  const auto found = std::ranges::find(plan.phases, name, &PhasePlan::name);
  return found == plan.phases.end() ? nullptr : &*found;
}

RunTimes times_of(const Config& config, const PlanningInput& input, const Plan& plan) {
  return {evaluate_seconds(config, input, plan), save_rate(input), noise_seconds(plan)};
}

json run_json(const Config& config, const PlanningInput& input, const Plan& plan, const RunTimes& times) {
  const RunCounts counts = counts_of(config, input, plan);
  const bool there = input.data.train != nullptr, units_known = there || !data_kind(config).own_lengths;
  json epochs;
  if (there) epochs = counts.epochs;
  if (config.train.epochs && config.train.open) epochs = *config.train.epochs;
  const double seconds = static_cast<double>(config.train.updates) * plan.update_seconds;
  const std::int64_t evaluations = evaluations_of(config, input);
  const double evaluation_seconds = static_cast<double>(evaluations) * times.evaluate.value_or(0);
  const Saves saves = saves_of(config, plan);
  const double save_seconds = static_cast<double>(saves.bytes.n) / times.save_rate;
  const std::int64_t every = config.train.noise_every;
  const double noise = every > 0 ? static_cast<double>(config.train.updates / every) * times.noise : 0;
  return {{"parameters", parameter_count(plan.graph)},
          {"updates", config.train.updates},
          {"samples", counts.samples},
          {"epochs", epochs},
          {"tokens", counts.positions},
          {"trained_units", or_null(units_known ? std::optional(counts.units) : std::nullopt)},
          {"seconds", seconds},
          {"evaluations", evaluations},
          {"evaluation_seconds", times.evaluate ? json(evaluation_seconds) : json(nullptr)},
          {"saves", saves.checkpoints},
          {"save_seconds", save_seconds},
          {"noise_seconds", noise},
          {"total_seconds", seconds + evaluation_seconds + save_seconds + noise},
          {"micro_batch_chosen", !input.request.micro_batch && config.train.effective_batch > 1}};
}

void add_times(json& plan_json, const Config& config, const Plan& plan, const RunTimes& times) {
  json& predicted = plan_json["predicted"];
  predicted["evaluate_seconds"] = times.evaluate ? json(*times.evaluate) : json(nullptr);
  predicted["save_seconds"] = static_cast<double>(checkpoint_bytes(plan.graph).n) / times.save_rate;
  if (config.train.noise_every == 0) return;
  const bool measures = find_phase(plan, "noise") != nullptr;
  const bool several = plan.decisions.window().rounds() > 1;
  plan_json["noise"] = {{"every", config.train.noise_every},
                        {"measured", measures},
                        {"why_not", measures  ? json()
                                    : several ? json("shared gradients")
                                              : json("one round")},
                        {"seconds", times.noise},
                        {"read_bytes", measures ? read_by_noise(plan).n : 0}};
}

json epoch_json(const EpochFacts& epoch, const DataSet& train, std::int64_t context) {
  const std::int64_t rows = std::max<std::int64_t>(1, epoch.all_rows);
  const double share = std::min(1.0, static_cast<double>(epoch.positions) / static_cast<double>(rows * context));
  json object = {{"samples", epoch.samples}, {"tokens", epoch.positions}, {"trained_units", epoch.units},
                 {"updates", epoch.updates}, {"rows", epoch.all_rows},    {"fill", share}};
  if (train.counts().read > 0) object["data"] = to_json(train.counts());
  return object;
}

}  // namespace plimsoll
