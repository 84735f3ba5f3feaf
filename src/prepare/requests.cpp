#include "prepare/requests.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/error.h"
#include "config/image_rules.h"
#include "run/place.h"

namespace plimsoll {

OptimizerSettings optimizer_settings(const Config& config) {
  const OptimizerChoice& choice = config.optimizer;
  OptimizerSettings settings;
  settings.kind = choice.kind;
  settings.beta2 = choice.beta2;
  settings.epsilon = choice.epsilon;
  settings.momentum = choice.momentum > 0;
  settings.nesterov = choice.nesterov;
  settings.weight_decay = choice.weight_decay;
  settings.decay = choice.decay;
  settings.clip = config.train.gradient_clip;
  settings.scaled = config.precision.compute == DType::f16;
  settings.clip_value = config.train.gradient_clip_value;
  settings.parameters = config.precision.parameters;
  settings.gradients = config.precision.gradients;
  settings.state = config.precision.optimizer_state;
  settings.nearest = config.precision.rounding == Rounding::nearest;
  settings.seed = static_cast<std::uint64_t>(config.seed);
  if (choice.ema_half_life) {
    const double half_lives =
        static_cast<double>(config.train.effective_batch) / in_samples(*choice.ema_half_life, run_length(config));
    settings.average_blend = -std::expm1(-half_lives * std::numbers::ln2);
  }
  return settings;
}

PlanRequest plan_request(const Config& config, const std::optional<RaggedWindows>& ragged, std::int64_t ranks) {
  PlanRequest request;
  request.ranks = ranks;
  request.effective_batch = config.train.effective_batch;
  request.ragged = ragged;
  request.most_rows = config.batch.tokens / config.model.context;
  request.micro_batch = config.train.micro_batch;
  request.row_step = std::max<std::int64_t>(1, stat_batch(config));
  request.recompute = config.plan.recompute;
  request.group = config.plan.group;
  if (config.plan.loss_chunks) request.loss_chunks = static_cast<int>(*config.plan.loss_chunks);
  request.optimizer_state = config.plan.optimizer_state;
  request.parameters = config.plan.parameters;
  request.gradients = config.plan.gradients;
  request.activations = config.plan.activations;
  request.beyond = rooms_beyond(plan_budget(config), /*host=*/false);
  request.units_per_sample = config.model.context;
  return request;
}

// Ranks hold parts of the averages, and none of them could write these as weights. Parameters and gradients leave for other ranks
// from memory.
void request_for_ranks(PlanRequest& request, const Config& config, int ranks) {
  request.ranks = ranks;
  if (ranks == 1) return;
  for (const auto& [policy, key] :
       {std::pair{config.plan.parameters, "plan.parameters"}, {config.plan.gradients, "plan.gradients"}}) {
    if (policy != RestPolicy::disk) continue;
    throw config_error("E-CONFIG-CONFLICT", key, fmt::format("it is \"disk\" with {} ranks", ranks),
                       "memory; the optimizer's state and activations may leave it", {Change(key, "auto")});
  }
  if (config.optimizer.ema_half_life) {
    throw config_error("E-CONFIG-CONFLICT", "optimizer.ema_half_life", fmt::format("averages of weights with {} ranks", ranks),
                       "one process, or no averages", {Change("optimizer.ema_half_life", "none")});
  }
  request.parameters = request.gradients = RestPolicy::memory;
}

std::vector<Bytes> rooms_beyond(const Budget& budget, bool host) {
  std::vector<Bytes> rooms;
  if (host && (budget.host_memory || budget.disk)) rooms.push_back(budget.host_memory.value_or(Bytes{0}));
  if (budget.disk) rooms.push_back(*budget.disk);
  return rooms;
}

Budget plan_budget(const Config& config) {
  Budget budget{config.memory.budget, config.memory.host_memory, std::nullopt};
  if (config.memory.disk) budget.disk = config.memory.disk->size;
  return budget;
}

PlaceRequest place_request(const Config& config) {
  PlaceRequest request;
  request.cuda = config.device == DeviceChoice::cuda;
  if (config.memory.disk) request.folder = config.memory.disk->folder;
  if (config.device == DeviceChoice::sim) request.links = {config.links.host, config.links.disk};
  return request;
}

GraphSource source_of(const Config& config, DataFacts facts) {
  return [&config, facts](std::int64_t micro) { return build_training_graph(config, facts, micro).graph; };
}

}  // namespace plimsoll
