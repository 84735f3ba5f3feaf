#include "weights/progress.h"

#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "base/text.h"

namespace plimsoll {
namespace {

// Whole numbers under their names.
constexpr std::pair<const char*, std::int64_t Progress::*> kProgress[] = {{"samples", &Progress::samples},
                                                                          {"units", &Progress::units},
                                                                          {"micro_batch", &Progress::micro_batch},
                                                                          {"accumulation", &Progress::accumulation},
                                                                          {"seed", &Progress::seed}};
constexpr std::pair<const char*, std::int64_t LossScaleState::*> kLossScale[] = {{"good_samples", &LossScaleState::good_samples},
                                                                                 {"overflows", &LossScaleState::overflows},
                                                                                 {"low_windows", &LossScaleState::low_windows},
                                                                                 {"skipped", &LossScaleState::skipped}};

Origin origin_from(const nlohmann::json& object) {
  return {object.at("model"), object.at("init"), object.at("weights"), object.at("adapter"), object.at("adapter_weights")};
}

LossScaleState scale_from(const nlohmann::json& object) {
  LossScaleState state;
  state.scale = object.at("scale").get<double>();
  for (const auto& [name, field] : kLossScale) state.*field = object.at(name).get<std::int64_t>();
  state.recent = std::bitset<LossScaleState::kRecent>(object.at("recent").get<std::string>());
  return state;
}

// Refuses counters that no run has, because later code multiplies and divides by them.
void check(const Progress& progress) {
  constexpr std::int64_t kMostUpdates = std::int64_t{1} << 36, kMostBatch = 1 << 24;
  const auto in = [](const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (value < low || value > high) throw std::out_of_range(fmt::format("{} is {}, not in [{}, {}]", name, value, low, high));
  };
  in("updates", progress.updates, 0, kMostUpdates);
  in("micro_batch", progress.micro_batch, 1, kMostBatch);
  in("accumulation", progress.accumulation, 1, kMostBatch / progress.micro_batch);
  const std::int64_t skipped = progress.loss_scale ? progress.loss_scale->skipped : 0;
  in("skipped", skipped, 0, kMostUpdates);
  in("samples", progress.samples, progress.updates + skipped, std::int64_t{1} << 62);
  in("position", progress.position, 0, std::int64_t{1} << 62);
  in("optimizer_updates", progress.optimizer_updates, progress.updates, 2 * kMostUpdates);
  in("units", progress.units, 0, std::int64_t{1} << 62);
  if (!std::isfinite(progress.seconds) || progress.seconds < 0) throw std::out_of_range("seconds are no time");
  const double scale = progress.loss_scale ? progress.loss_scale->scale : 1;
  if (!(scale > 0) || !std::isfinite(scale)) throw std::out_of_range("the loss scale is no scale");
}

}  // namespace

nlohmann::json to_json(const Progress& progress) {
  nlohmann::json object = {{"update", progress.updates},
                           {"position", progress.position},
                           {"optimizer_updates", progress.optimizer_updates},
                           {"seconds", progress.seconds},
                           {"loss_bits", bits_hex(progress.loss)},
                           {"data_hash", progress.data_hash},
                           {"config_hash", progress.config_hash},
                           {"optimizer", progress.optimizer}};
  for (const auto& [name, field] : kProgress) object[name] = progress.*field;
  if (const Origin& origin = progress.origin; !origin.model.empty()) {
    object["origin"] = {{"model", origin.model},
                        {"init", origin.init},
                        {"weights", origin.weights},
                        {"adapter", origin.adapter},
                        {"adapter_weights", origin.adapter_weights}};
  }
  if (const auto& scale = progress.loss_scale) {
    object["loss_scale"] = {{"scale", scale->scale}, {"recent", scale->recent.to_string()}};
    for (const auto& [name, field] : kLossScale) object["loss_scale"][name] = (*scale).*field;
  }
  return object;
}

Progress progress_from(const nlohmann::json& object) {
  Progress progress;
  for (const auto& [name, field] : kProgress) progress.*field = object.at(name).get<std::int64_t>();
  const bool first_format = object.contains("updates");
  progress.updates = object.at(first_format ? "updates" : "update").get<std::int64_t>();
  progress.position = first_format ? progress.samples : object.at("position").get<std::int64_t>();
  progress.optimizer_updates = first_format ? progress.updates : object.at("optimizer_updates").get<std::int64_t>();
  progress.seconds = object.at("seconds").get<double>();
  progress.loss = std::bit_cast<double>(std::stoull(object.at("loss_bits").get<std::string>(), nullptr, 16));
  progress.data_hash = object.at("data_hash").get<std::string>();
  progress.config_hash = object.value("config_hash", std::string());
  progress.optimizer = object.value("optimizer", std::string());
  if (object.contains("loss_scale")) progress.loss_scale = scale_from(object.at("loss_scale"));
  if (object.contains("origin")) progress.origin = origin_from(object.at("origin"));
  check(progress);
  return progress;
}

}  // namespace plimsoll
