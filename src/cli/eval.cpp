#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/inference.h"
#include "cli/say.h"
#include "cli/settings.h"
#include "device/cpu/parallel.h"
#include "run/cpu_device.h"
#include "run/executor.h"
#include "train/calibrate.h"
#include "train/token_place.h"
#include "train/trainer.h"
#include "train/weights.h"

namespace plimsoll {
namespace {

// The largest batch of these that fits; evaluation keeps nothing, so more than a few samples gain nothing.
constexpr std::int64_t kBatches[] = {8, 4, 2, 1};

}  // namespace

int run_eval(const EvalArguments& arguments) {
  Config config = load_settings(arguments.config);
  const Gpt2Config model = read_gpt2_config(arguments.weights);
  config.model.shape.vocab = model.vocab;
  const MachineRecord machine = calibrated_machine(config.threads, cache_folder(), say_line);
  // What trains on a GPU is evaluated on this computer, as what trains on a simulated device, within what both may take.
  if (config.device == DeviceChoice::cuda && !arguments.config.budgets.memory) config.memory.budget = config.memory.host_memory;
  if (config.device == DeviceChoice::sim && config.memory.budget) {
    *config.memory.budget += config.memory.host_memory.value_or(Bytes{0});
    if (!config.memory.host_memory) config.memory.budget.reset();
  }
  const Bytes budget = inference_budget(config.memory);
  const TokenFile source =
      open_in_child(config, config.data.validation.empty() ? config.data.train : config.data.validation, cache_folder());
  const std::int64_t tokens = std::min(config.model.context, model.context);

  std::optional<InferencePlan> chosen;
  for (const std::int64_t batch : kBatches) {
    chosen = plan_inference(build_evaluation_graph(model, tokens, source.bytes_per_token, batch), batch, machine, budget);
    if (chosen->fits || batch == 1) break;
  }
  require_fit(*chosen, budget);
  cpu::set_thread_count(config.threads);
  const Program program = lower(chosen->plan);
  verify(program, chosen->plan.graph);
  const Arena arena(chosen->plan.arena);
  CpuDevice device(arena);
  Executor executor(chosen->plan.graph, program, device, machine.machine.threads, 1);
  load_weights(chosen->plan.graph, arguments.weights, executor);
  const EvaluationResult result = evaluate(executor, source, tokens, chosen->batch, 0, chosen->graph.model.evaluate,
                                           chosen->graph.model.evaluate_total, chosen->graph.staging[0]);
  if (arguments.json) {
    const nlohmann::json object = {
        {"schema", "plimsoll.eval/1"}, {"units", result.units}, {"loss", result.loss}, {"loss_bits", bits_hex(result.loss)}};
    fmt::print("{}\n", object.dump());
  } else {
    fmt::print("loss {:.6f} nats per unit over {} units of {}\n", result.loss, result.units, source.name);
  }
  return 0;
}

}  // namespace plimsoll
