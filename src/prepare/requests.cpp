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

// Whole parameters and whole gradients leave for other ranks from memory. Shards may rest on a disk.
PlanRequest request_of_stage(PlanRequest request, std::int64_t stage) {
  if (request.ranks == 1) return request;
  const auto keep = [&](RestPolicy& policy, const char* key, std::int64_t from) {
    if (stage >= from) return;
    if (policy == RestPolicy::disk) {
      throw config_error("E-CONFIG-CONFLICT", key, fmt::format("it is \"disk\" in stage {} of ZeRO", stage),
                         fmt::format("parallel.zero = {}, where ranks hold a share of them", from),
                         {Change("parallel.zero", std::to_string(from))});
    }
    policy = RestPolicy::memory;
  };
  keep(request.parameters, "plan.parameters", 3);
  keep(request.gradients, "plan.gradients", 2);
  return request;
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
