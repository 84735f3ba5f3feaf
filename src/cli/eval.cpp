#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/error_list.h"
#include "base/memory_limit.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/eval_data.h"
#include "cli/inference.h"
#include "cli/progress.h"
#include "cli/say.h"
#include "config/config_keys.h"
#include "formats/weights_folder.h"
#include "measure/calibrate.h"
#include "prepare/epochs.h"
#include "prepare/planning.h"
#include "records/best_weights.h"
#include "session/probe.h"
#include "settings/setting.h"
#include "train/trainer.h"

namespace plimsoll {
namespace {

// The candidates for the batch; the largest that fits is taken. Evaluation keeps no activations, so more than a few rows gain
// nothing. Packed rows may be fewer.
std::vector<std::int64_t> batches_for(const Config& config, const DataSet& source, const std::optional<BestWeights>& best) {
  std::vector<std::int64_t> batches{8, 4, 2, 1};
  // The batch of the training, so that the loss has the same bits.
  if (best) batches.insert(batches.begin(), best->micro_batch);
  if (!config.batch.packing) return batches;
  const std::int64_t rows = evaluation_batches(config, source, 1);
  std::erase_if(batches, [&](std::int64_t batch) { return batch > 1 && batch / 2 >= rows; });
  return batches;
}

// False for keys without effect: an evaluation takes the model from the weights, and trains nothing.
bool is_used(std::string_view key) {
  constexpr std::string_view kUsed[] = {"data.",     "image.",        "memory.",       "machine.",
                                        "quantize.", "batch.packing", "model.context", "train.evaluate_samples"};
  return std::any_of(std::begin(kUsed), std::end(kUsed), [&](std::string_view used) { return key.starts_with(used); });
}

// Removes remedies that eval would refuse. These belong to the configuration of a training.
void keep_used(Remedies& remedies) {
  constexpr std::array<std::string_view, 2> kNoOptions{"machine.device", "machine.unverified"};
  std::erase_if(remedies, [&](const Remedy& remedy) {
    return remedy.command.empty() && std::ranges::any_of(remedy.changes, [&](const Change& change) {
             const bool option = std::ranges::find(kNoOptions, change.key) != kNoOptions.end();
             return option || !(is_used(change.key) || change.key.starts_with("command."));
           });
  });
}

void check_used(const ConfigArguments& config) {
  std::vector<std::string> ignored;
  ConfigFaults faults;
  for (const KeySetting& one : find_keys(typed_settings_of(config.changes), ignored, faults)) {
    if (is_used(one.key->name)) continue;
    faults.attempt([&] {
      throw config_error("E-USAGE", one.setting.where, fmt::format("eval does not use {}", one.setting.name),
                         "keys of [data], [image], [memory], [machine] and [quantize], batch.packing, model.context, "
                         "train.evaluate_samples; the model is that of --weights");
    });
  }
  faults.check();
}

// If the base of the configuration's adapter has moved, the evaluated model stands for it.
Config load_for(const ConfigArguments& arguments, const ModelSource& model) {
  try {
    return load_settings(arguments);
  } catch (const Error& error) {
    if (error.code != "E-ADAPTER-BASE") throw;
    ConfigArguments moved = arguments;
    moved.changes.emplace_back("model.init", model.folder.string());
    return load_settings(moved);
  }
}

int evaluate_weights(const EvalArguments& arguments) {
  check_used(arguments.config);
  const ModelSource model = find_model(arguments.weights, arguments.adapter);
  const std::optional<BestWeights> best = read_best(weights_folder(arguments.weights));
  say_best(arguments.weights);
  say_best(arguments.adapter);
  if (best && best->rounded) say_line("note: saving rounded these weights; the loss here is that of the rounded ones");
  Config config = load_for(arguments.config, model);
  const ModelFacts facts = facts_of(model.model);
  read_as_trained(config, model);
  std::optional<MemoryLimit> limit(std::in_place, planning_memory(config));
  const MachineRecord machine = calibrated_machine(config.threads, cache_folder(), probe_shape, say_line);
  // Evaluation of a configuration for a GPU or a simulated device runs on this computer, within the sum of both budgets.
  if (config.device == DeviceChoice::cuda && !is_typed(arguments.config.changes, "memory.budget"))
    config.memory.budget = config.memory.host_memory;
  if (config.device == DeviceChoice::sim && config.memory.budget) {
    *config.memory.budget += config.memory.host_memory.value_or(Bytes{0});
    if (!config.memory.host_memory) config.memory.budget.reset();
  }
  const InferenceRoom room = inference_room(config.memory, machine, cache_folder(), say_line);
  const std::unique_ptr<DataSet> data = open_validation_in_child(config, cache_folder());
  tell_data(*data, model);
  const std::int64_t tokens = std::min(config.model.context, most_positions(facts));
  config.model.context = tokens;
  config.batch.packing = config.batch.packing && data->own_lengths();
  const DataFacts rows{.row = data->row_shape(config.batch.packing), .packed = config.batch.packing};
  const auto build = [&](std::int64_t batch, const FrozenBase& base) {
    return build_evaluation_graph(model.model, tokens, rows, batch, model.adapter, base);
  };
  const InferenceRequest request{build, batches_for(config, *data, best), base_of(config.base, model.model, model.folder),
                                 &model};
  InferencePlan plan = plan_inference(request, room);
  limit.reset();
  InferenceRun run(std::move(plan), room, model, arguments.audit);
  const Pass& pass = run.graph().model.pass("evaluate");
  run.enter(pass);
  EvaluationProgress progress;
  const std::unique_ptr<SampleSource> samples = data->source(reading_of(config));
  const EvaluationResult result =
      evaluate(run.executor(), *samples, run.size(), config.train.evaluate_samples, pass, run.graph().staging[0],
               [&](std::int64_t done, std::int64_t all) { progress.show(done, all, say_line); });
  run.check();
  if (arguments.json) {
    nlohmann::json object = {
        {"schema", "plimsoll.eval/1"}, {"units", result.units}, {"loss", result.loss}, {"loss_bits", bits_hex(result.loss)}};
    if (const auto& accuracy = result.accuracy) object["accuracy"] = accuracy->top1, object["accuracy_top5"] = accuracy->top5;
    print_result(std::move(object), run);
  } else {
    print_text(fmt::format("loss {:.6f} nats per unit over {} units of {}{}\n", result.loss, result.units, data->name(),
                           accuracy_text(result.accuracy)));
  }
  return 0;
}

}  // namespace

int run_eval(const EvalArguments& arguments) {
  try {
    return evaluate_weights(arguments);
  } catch (ErrorList& list) {
    keep_used(list.remedies);
    for (Error& other : list.others) keep_used(other.remedies);
    throw;
  } catch (Error& error) {
    keep_used(error.remedies);
    throw;
  }
}

}  // namespace plimsoll
