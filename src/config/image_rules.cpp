#include "config/image_rules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>

#include "adapters/adapter.h"
#include "base/error.h"
#include "models/conv_norm.h"
#include "models/family.h"
#include "models/pixel_norm.h"

namespace plimsoll {
namespace {

// The largest divisor of n up to `most`.
std::int64_t largest_divisor(std::int64_t n, std::int64_t most) {
  std::int64_t divisor = std::max<std::int64_t>(1, std::min(n, most));
  while (n % divisor != 0) --divisor;
  return divisor;
}

constexpr std::int64_t kMostUsual = 32, kLeastUsual = 16;  // samples that share statistics

std::int64_t usual_group(std::int64_t effective_batch) { return largest_divisor(effective_batch, kMostUsual); }

// The batch sizes nearest to `batch`, below and above, whose usual group is large enough.
std::vector<std::int64_t> batches_of_large_groups(std::int64_t batch) {
  const auto large = [](std::int64_t size) { return usual_group(size) >= kLeastUsual; };
  std::vector<std::int64_t> sizes;
  std::int64_t below = batch, above = batch;
  while (below > 0 && !large(below)) --below;
  while (!large(above)) ++above;
  if (below > 0) sizes.push_back(below);
  if (above > below) sizes.push_back(above);
  return sizes;
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

// The options of the layers, and true if one of them normalises by the statistics of its batch.
std::pair<NormOptions, bool> norms_of(const Config& config) {
  const ModelConfig& model = config.model.config;
  NormOptions options{.momentum = config.norm.momentum, .running = config.norm.running || config.adapter.active(), .frozen = {}};
  if (model.empty() || !facts_of(model).batch_norm || options.running) return {options, false};
  const TrainSettings& train = config.train;
  options.group = config.norm.stat_batch.value_or(train.micro_batch.value_or(usual_group(train.effective_batch)));
  if (config.model.freeze.empty()) return {options, true};
  // The names of parameters are known once a graph has them.
  Graph graph = model.family().build(model, smallest_shape(), {}).graph;
  freeze(graph, config.model.freeze);
  for (const ValueId id : graph.parameters()) {
    const Value& value = graph.values[id];
    if (value.parameter->kind == ParameterKind::frozen) options.frozen.insert(value.name.text());
  }
  const bool batch = std::ranges::any_of(graph.parameters(), [&](ValueId id) {
    const std::string name = graph.values[id].name.text();
    return name.ends_with(kRunningMean) && !options.fixes(name.substr(0, name.size() - std::string_view(kRunningMean).size()));
  });
  return {options, batch};
}

// Without statistics of a batch, these keys have no effect.
void check_unused(Config& config, const GivenSettings& given) {
  const char* why = config.norm.running       ? "layers normalise by the running statistics"
                    : config.adapter.active() ? "under an adapter, layers normalise by the running statistics"
                                              : "all norms are frozen and normalise by the running statistics";
  if (config.norm.stat_batch) {
    Remedies remedies{Change("norm.stat_batch", "auto")};
    if (config.norm.running) remedies.push_back(Change("norm.statistics", "batch"));
    throw conflict(given, "norm.stat_batch", fmt::format("norm.stat_batch is given, and {}", why), "one of the two",
                   std::move(remedies));
  }
  if (config.norm.momentum == NormSettings().momentum) return;
  config.notes.push_back(fmt::format("{}: norm.momentum is not used: {}", given.where("norm.momentum"), why));
}

void check_groups(const Config& config, const GivenSettings& given) {
  const std::optional<std::int64_t>& group = config.norm.stat_batch;
  if (!group) return;
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

// A batch with few divisors has small groups.
void note_small_groups(Config& config, const GivenSettings& given) {
  const std::int64_t batch = config.train.effective_batch, group = usual_group(batch);
  if (config.norm.stat_batch || config.train.micro_batch || group >= kLeastUsual) return;
  std::vector<std::string> better;
  for (const std::int64_t size : batches_of_large_groups(batch)) {
    better.push_back(fmt::format("{} with groups of {}", size, usual_group(size)));
  }
  config.notes.push_back(fmt::format(
      "{}: batch norm takes statistics of {} sample{}, the largest divisor of train.effective_batch = {} up to {}; "
      "batches nearby: {}; norm.stat_batch sets another group",
      given.where("train.effective_batch"), group, group == 1 ? "" : "s", batch, kMostUsual, fmt::join(better, ", ")));
}

void complete_groups(Config& config, const GivenSettings& given) {
  const std::int64_t group = stat_batch(config);
  if (group == 0) return check_unused(config, given);
  check_groups(config, given);
  note_small_groups(config, given);
  config.norm.stat_batch = group;
}

}  // namespace

std::int64_t stat_batch(const Config& config) {
  const auto& [options, batch] = norms_of(config);
  return batch ? options.group : 0;
}

NormOptions norm_options(const Config& config) { return norms_of(config).first; }

Remedies larger_groups(const Config& config) {
  Remedies remedies;
  for (const std::int64_t size : batches_of_large_groups(std::max<std::int64_t>(config.train.effective_batch, 2))) {
    remedies.push_back(Remedy::of_changes({{"train.effective_batch", size},
                                           {"train.micro_batch", "auto"},
                                           {"train.accumulation", "auto"},
                                           {"norm.stat_batch", "auto"}}));
  }
  return remedies;
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
  if (facts.batch_norm) complete_groups(config, given);
  if (facts.new_head && config.model.init.empty()) {
    throw conflict(given, "model.head", "model.head is \"new\", and all weights are new", "a folder in model.init, or keep",
                   {Change("model.head", "keep")});
  }
  if (!config.adapter.active() || !facts.new_head) return;
  std::vector<std::string>& saved = config.adapter.modules_to_save;
  if (std::ranges::find(saved, facts.head) == saved.end()) saved.push_back(facts.head);
}

void complete_pixels(Config& config, const GivenSettings& given) {
  const std::int64_t channels = facts_of(config.model.config).channels;
  if (channels == 0) return;
  const std::filesystem::path& init = config.model.init;
  if (!init.empty()) {
    // A resumed run has these numbers, whatever happens to the folder.
    const PixelNorm norm = pixel_norm_of(init);
    if (config.image.mean.empty()) config.image.mean = norm.mean;
    if (config.image.std.empty()) config.image.std = norm.std;
  }
  for (const auto& [key, numbers] : {std::pair("image.mean", &config.image.mean), {"image.std", &config.image.std}}) {
    const std::int64_t count = std::ssize(*numbers);
    if (count <= 1 || count == channels) continue;
    throw config_error("E-CONFIG-VALUE", given.where(key),
                       given.has(key) ? fmt::format("{} has {} numbers", key, count)
                                      : fmt::format("{} is that of {}, which has {} numbers", key, init.string(), count),
                       fmt::format("one number, or one for each channel of the model: {}", channels));
  }
}

}  // namespace plimsoll
