#include "config/image_rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "models/family.h"
#include "models/pixel_norm.h"

namespace plimsoll {
namespace {

// The largest divisor of n up to `most`.
std::int64_t largest_divisor(std::int64_t n, std::int64_t most) {
  std::int64_t divisor = std::min(n, most);
  while (n % divisor != 0) --divisor;
  return divisor;
}

Error conflict(const GivenSettings& given, std::string_view key, std::string what, std::string expected, Remedies remedies = {}) {
  return config_error("E-CONFIG-CONFLICT", given.where(key), std::move(what), std::move(expected), std::move(remedies));
}

void check_keys_of_norms(const Config& config, const GivenSettings& given) {
  for (const char* key : {"norm.stat_batch", "norm.statistics", "norm.momentum"}) {
    const Setting* setting = given.find(key);
    if (setting == nullptr || is_auto(*setting)) continue;
    throw conflict(given, key,
                   fmt::format("{} is given, and a {} has no batch normalisation", key, config.model.config.family().kind),
                   "without it");
  }
}

void check_groups(const Config& config, const GivenSettings& given) {
  const std::optional<std::int64_t>& group = config.norm.stat_batch;
  if (!group) return;
  if (config.norm.running) {
    if (!given.has("norm.stat_batch")) return;
    throw conflict(given, "norm.stat_batch", "norm.stat_batch is given, and layers normalise by the running statistics",
                   "one of the two", {Change("norm.stat_batch", "auto"), Change("norm.statistics", "batch")});
  }
  const bool micro = config.train.micro_batch.has_value();
  const std::int64_t batch = config.train.micro_batch.value_or(config.train.effective_batch);
  if (batch % *group == 0) return;
  const std::int64_t smaller = largest_divisor(batch, *group), whole = std::max(*group, batch / *group * *group);
  const char* key = micro ? "train.micro_batch" : "train.effective_batch";
  Remedies remedies{Change("norm.stat_batch", smaller)};
  if (!config.train.accumulation || !micro) remedies.push_back(Change(key, whole));
  throw config_error("E-BATCH-NORM", given.where("norm.stat_batch"),
                     fmt::format("groups of {} samples do not divide {} = {}", *group, key, batch),
                     fmt::format("norm.stat_batch = {}, or {} = {}; both change results", smaller, key, whole),
                     std::move(remedies));
}

// A resumed run has these numbers, whatever happens to the folder.
void complete_pixels(Config& config) {
  if (config.model.init.empty()) return;
  const PixelNorm norm = pixel_norm_of(config.model.init);
  if (config.image.mean.empty()) config.image.mean = norm.mean;
  if (config.image.std.empty()) config.image.std = norm.std;
}

}  // namespace

std::int64_t stat_batch(const Config& config) {
  constexpr std::int64_t kUsual = 32;
  if (config.model.config.empty() || !facts_of(config.model.config).batch_norm || config.norm.running) return 0;
  if (config.norm.stat_batch) return *config.norm.stat_batch;
  return config.train.micro_batch ? *config.train.micro_batch : largest_divisor(config.train.effective_batch, kUsual);
}

void complete_images(Config& config, const GivenSettings& given) {
  const ModelFacts facts = facts_of(config.model.config);
  if (!facts.batch_norm) check_keys_of_norms(config, given);
  if (facts.classes == 0) return;
  config.model.open_classes = facts.new_head && !config.model.init.empty() && !given.has("model.classes");
  if (config.train.z_loss > 0) {
    throw conflict(given, "train.z_loss",
                   fmt::format("train.z_loss is given, and a {} has few classes", config.model.config.family().kind),
                   "without it", {Change("train.z_loss", 0)});
  }
  check_groups(config, given);
  if (config.norm.stat_batch.value_or(0) == 0 && stat_batch(config) > 0) config.norm.stat_batch = stat_batch(config);
  complete_pixels(config);
  if (facts.new_head && config.model.init.empty()) {
    throw conflict(given, "model.head", "model.head is \"new\", and all weights are new", "a folder in model.init, or keep",
                   {Change("model.head", "keep")});
  }
  if (!config.adapter.active() || !facts.new_head) return;
  std::vector<std::string>& saved = config.adapter.modules_to_save;
  if (std::ranges::find(saved, facts.head) == saved.end()) saved.push_back(facts.head);
}

}  // namespace plimsoll
