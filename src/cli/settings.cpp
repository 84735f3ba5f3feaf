#include "cli/settings.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>

#include "base/error.h"
#include "cli/environment.h"
#include "cli/say.h"
#include "cli/spelling.h"
#include "config/config_keys.h"
#include "config/image_rules.h"
#include "models/family.h"
#include "ops/cuda_kernel.h"
#include "ops/families.h"
#include "prepare/epochs.h"
#include "prepare/training_graph.h"
#include "settings/setting.h"

namespace plimsoll {

namespace {

// Keys of commands without a configuration.
constexpr std::array<std::string_view, 4> kInferenceKeys{"memory.budget", "memory.host_memory", "memory.disk", "quantize.base"};
constexpr std::span kBudgetKeys = std::span(kInferenceKeys).first(3);
constexpr std::span kBaseKeys = std::span(kInferenceKeys).last(1);
constexpr const char* kOfWeights = "quantize.base; the model is that of --weights";

void tell_notes(const Config& config) {
  for (const std::string& note : config.notes) say_line(fmt::format("note: {}", note));
}

// A configuration with these keys alone; E-USAGE for other keys.
Config with_keys(const Changes& changes, std::span<const std::string_view> keys, std::string_view command, const char* expected) {
  Config config;
  ConfigFaults faults;
  for (const KeySetting& one : find_keys(typed_settings_of(changes), config.notes, faults)) {
    faults.attempt([&] {
      if (std::ranges::find(keys, one.key->name) != keys.end()) return one.set(config, one.setting);
      throw config_error("E-USAGE", one.setting.where, fmt::format("{} does not use {}", command, one.setting.name), expected);
    });
  }
  faults.check();
  return config;
}

}  // namespace

Config load_settings(const ConfigArguments& arguments, const Bf16Speed& bf16) {
  Config loaded = load_config(arguments.file, typed_settings_of(arguments.changes), bf16);
  settle(loaded);
  return loaded;
}

Config read_settings_only(RunSettings& settings, const Bf16Speed& bf16) {
  Config loaded = load_config(settings, bf16);
  tell_notes(loaded);
  if (loaded.memory.disk) check_disk_folder(*loaded.memory.disk);
  return loaded;
}

RunSettings read_settings_of(const ConfigArguments& arguments) {
  return {arguments.file, read_settings(arguments.file), typed_settings_of(arguments.changes)};
}

Config load_settings(RunSettings& settings) {
  Config loaded = load_config(settings);
  settle(loaded);
  return loaded;
}

std::optional<Change> length_of_epochs(const Config& config) {
  if (!assume_missing_data(config).empty()) {
    say_line(fmt::format("note: train.epochs = {:g} without the data: planned for {} updates", *config.train.epochs,
                         config.train.updates));
    return {};
  }
  const std::unique_ptr<DataSet> train = open_training_in_child(config, cache_folder());
  return Change("train.updates", updates_of_epochs(config, *train));
}

namespace {

// The classes of a new head: those of the training data.
std::optional<Change> classes_of_data(const Config& config) {
  if (!assume_missing_data(config).empty()) {
    say_line(fmt::format("note: the new head has {} classes without the data", facts_of(config.model.config).classes));
    return {};
  }
  return Change("model.classes", open_training_in_child(config, cache_folder())->classes());
}

}  // namespace

ConfigArguments with_data(ConfigArguments arguments) {
  const Config config = load_config(arguments.file, typed_settings_of(arguments.changes));
  if (config.model.open_classes) {
    if (std::optional<Change> classes = classes_of_data(config)) arguments.changes.push_back(*std::move(classes));
  }
  if (!config.train.open) return arguments;
  if (std::optional<Change> length = length_of_epochs(config)) arguments.changes.push_back(*std::move(length));
  return arguments;
}

std::vector<Setting> typed_settings_of(const Changes& changes) { return typed_settings(changes, option_of); }

bool is_typed(const Changes& changes, std::string_view key) {
  return std::ranges::find(changes, key, &Change::key) != changes.end();
}

void settle(const Config& config) {
  tell_notes(config);
  if (config.memory.disk) {
    check_disk_folder(*config.memory.disk);
    create_disk_folder(*config.memory.disk);
  }
}

namespace {

bool asks_for_proof(const Config& config) { return config.device == DeviceChoice::cuda && !config.unverified; }

// E-CUDA-UNVERIFIED if one of these ops has not passed its tests on a GPU.
void demand_verified(const std::set<const OpDef*>& ops) {
  std::set<std::string_view> unproved;
  for (const OpDef* op : ops) {
    if (!cuda_verified(*op)) unproved.insert(op->name);
  }
  if (unproved.empty()) return;
  constexpr std::size_t kNamed = 4;
  std::vector<std::string_view> named(unproved.begin(), unproved.end());
  named.resize(std::min(named.size(), kNamed));
  throw config_error(
      "E-CUDA-UNVERIFIED", "--device cuda",
      fmt::format("kernels of this model have not passed all of their tests on a GPU (docs/gpu.md): {}{}", fmt::join(named, ", "),
                  unproved.size() > kNamed ? fmt::format(" and {} more", unproved.size() - kNamed) : ""),
      "--unverified, to try it all the same",
      {Remedy::of_changes({{"machine.device", "cuda"}, {"machine.unverified", "true"}}), Change("machine.device", "cpu")});
}

}  // namespace

void demand_verified(const Config& config) {
  if (!asks_for_proof(config)) return;
  std::set<const OpDef*> ops;
  const DataFacts facts{.validation = true, .packed = config.batch.packing};
  for (const Node& node : build_training_graph(config, facts, std::max<std::int64_t>(1, stat_batch(config))).graph.nodes)
    ops.insert(node.op);
  demand_verified(ops);
}

bool wants_gpu(const ConfigArguments& arguments) {
  constexpr std::array<std::string_view, 2> kDeviceKeys{"machine.device", "machine.unverified"};
  const Config config = with_keys(arguments.changes, kDeviceKeys, "machine without CONFIG", "CONFIG, or --device alone");
  if (asks_for_proof(config)) demand_verified(std::set(ops::all_ops().begin(), ops::all_ops().end()));
  return config.device == DeviceChoice::cuda;
}

MemorySettings load_budgets(const Changes& changes, std::string_view command) {
  return with_keys(changes, kBudgetKeys, command, "budgets").memory;
}

BaseFormat load_base_format(const Changes& changes, std::string_view command) {
  const Config config = with_keys(changes, kBaseKeys, command, kOfWeights);
  tell_notes(config);
  return config.base;
}

InferenceSettings load_inference_settings(const Changes& changes, std::string_view command) {
  const Config config = with_keys(changes, kInferenceKeys, command, kOfWeights);
  tell_notes(config);
  if (config.memory.disk) create_disk_folder(*config.memory.disk);
  return {config.memory, config.base};
}

}  // namespace plimsoll
