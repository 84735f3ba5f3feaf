#include "prepare/run_room.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "weights/checkpoint.h"
#include "weights/weights.h"

namespace plimsoll {
namespace {

// Lines of metrics.jsonl, eval.jsonl and events.jsonl, and the other records.
constexpr Bytes kUpdateLine{512}, kNoise{160}, kEvaluationLine{256}, kRecords{512 << 10};

// A divergence, or a loss scale at its floor, ends the run and keeps its state.
bool keeps_diverged(const Config& config) {
  return config.train.on_divergence == OnDivergence::stop || config.precision.compute == DType::f16;
}

}  // namespace

std::int64_t Retention::most(std::int64_t updates) const {
  return std::max<std::int64_t>(2, last) + best + (every > 0 ? updates / every : 0);
}

Retention retention_of(const Config& config) {
  return {config.save.keep_last, config.save.keep_best, in_updates(config.save.keep_every, run_length(config))};
}

Bytes metrics_bytes(std::int64_t updates) { return kUpdateLine * updates; }

Bytes RunRoom::successor() const { return again ? std::max({weights, averages, best}) : best; }

RunRoom room_of_run(const Graph& graph, const Config& config, const WeightLayout& layout) {
  const ModelConfig& model = config.model.config;
  const WeightsBytes weights = weights_bytes(graph, model, layout);
  const bool averages = config.optimizer.ema_half_life.has_value();
  const WeightsBytes means = averages ? weights_bytes(graph, model, layout, /*averages=*/true) : WeightsBytes{};
  const std::int64_t updates = config.train.updates, interval = evaluation_interval(config);
  const std::int64_t evaluations = interval > 0 ? updates / interval : 0;
  const std::int64_t measured = config.train.noise_every > 0 ? updates / config.train.noise_every : 0;
  return {.checkpoint = checkpoint_bytes(graph),
          .weights = weights.all,
          .averages = means.all,
          .best = keeps_best_weights(config) ? weights.all : Bytes{},
          .records = kRecords + metrics_bytes(updates) + kNoise * measured + kEvaluationLine * evaluations,
          .checkpoints = retention_of(config).most(updates),
          .largest_file = std::max(weights.largest, means.largest),
          .diverged = keeps_diverged(config) ? checkpoint_bytes(graph) : Bytes{}};
}

nlohmann::json to_json(const RunRoom& room, Bytes pages) {
  return {{"peak_bytes", (room.all() + pages).n}, {"checkpoint_bytes", room.checkpoint.n}, {"checkpoints", room.checkpoints},
          {"weights_bytes", room.weights.n},      {"best_weights_bytes", room.best.n},     {"averages_bytes", room.averages.n},
          {"records_bytes", room.records.n},      {"successor_bytes", room.successor().n}, {"pages_bytes", pages.n},
          {"diverged_bytes", room.diverged.n}};
}

}  // namespace plimsoll
