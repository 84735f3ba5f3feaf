#include "prepare/run_length.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "data/token_place.h"
#include "graph/transfer.h"
#include "measure/measure_disk.h"
#include "prepare/answers.h"
#include "prepare/bytes_written.h"

namespace plimsoll {
namespace {

using nlohmann::json;

json or_null(std::optional<std::int64_t> number) { return number ? json(*number) : json(nullptr); }

// The seconds of one micro-batch of the pass: its kernels, or the transfers for which they wait.
double evaluation_seconds(const Plan& plan, const Machine& machine) {
  const auto pass = std::ranges::find_if(plan.phases, [](const PhasePlan& phase) { return phase.name == "evaluate"; });
  if (pass == plan.phases.end()) return 0;
  const StepRange steps = plan.timeline.of(pass->phase);
  double kernels = 0, bytes = 0;
  for (int i = steps.begin; i < steps.end; ++i) {
    const Step& step = plan.timeline.steps[static_cast<std::size_t>(i)];
    if (step.kind != Step::Kind::node) continue;
    kernels += plan.kernels[static_cast<std::size_t>(i)].of(false).seconds;
    const Node& node = plan.graph.nodes[step.node];
    if (node.op == &kFetch) bytes += static_cast<double>(plan.graph.values[node.outputs.front()].bytes().n);
  }
  const auto in = std::ranges::find(machine.links, 0U, &Link::to);
  return in == machine.links.end() ? kernels : std::max(kernels, bytes / in->bytes_per_second);
}

struct Evaluations {
  std::int64_t count = 0;
  std::optional<double> seconds;  // seconds of all evaluations; absent if the data are missing
};

// The last evaluation always follows the last update.
Evaluations evaluations_of(const Config& config, const PlanningInput& input, const Plan& plan) {
  if (!input.facts.validation) return {0, 0};
  const std::int64_t every = evaluation_interval(config), before = config.train.updates - 1;
  const std::int64_t count = (every > 0 ? before / every : 0) + 1;
  if (!input.data.validation) return {count, {}};
  const std::int64_t batches = evaluation_batches(config, *input.data.validation, plan.decisions.micro_batch);
  const double each = static_cast<double>(batches) * evaluation_seconds(plan, input.machine.machine);
  return {count, static_cast<double>(count) * (each + answer_seconds(config, plan))};
}

// If the data are missing, samples fill their rows, unless they have lengths of their own, which are unknown.
RunCounts counts_of(const Config& config, const PlanningInput& input, const Plan& plan) {
  if (input.data.train) return counts_of_run(config, *input.data.train, input.epoch ? &*input.epoch : nullptr);
  const std::int64_t tokens = config.train.updates * plan.units_per_update;
  return {.samples = config.train.updates * config.train.effective_batch, .units = tokens, .positions = tokens};
}

}  // namespace

json run_json(const Config& config, const PlanningInput& input, const Plan& plan) {
  const RunCounts counts = counts_of(config, input, plan);
  const bool there = input.data.train != nullptr, units_known = there || !data_kind(config).own_lengths;
  json epochs;
  if (there) epochs = counts.epochs;
  if (config.train.epochs && config.train.open) epochs = *config.train.epochs;
  const double seconds = static_cast<double>(config.train.updates) * plan.update_seconds;
  const Evaluations evaluations = evaluations_of(config, input, plan);
  const Saves saves = saves_of(config, plan);
  const double save_seconds = static_cast<double>(saves.bytes.n) / kAssumedDiskRate;
  return {{"parameters", parameter_count(plan.graph)},
          {"updates", config.train.updates},
          {"samples", counts.samples},
          {"epochs", epochs},
          {"tokens", counts.positions},
          {"trained_units", or_null(units_known ? std::optional(counts.units) : std::nullopt)},
          {"seconds", seconds},
          {"evaluations", evaluations.count},
          {"evaluation_seconds", evaluations.seconds ? json(*evaluations.seconds) : json(nullptr)},
          {"saves", saves.checkpoints},
          {"save_seconds", save_seconds},
          {"total_seconds", seconds + evaluations.seconds.value_or(0) + save_seconds},
          {"micro_batch_chosen", !input.request.micro_batch && config.train.effective_batch > 1}};
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
