#include "cli/settings.h"

#include <fmt/core.h>

#include "base/error.h"
#include "cli/environment.h"
#include "cli/say.h"
#include "config/config_keys.h"
#include "device/machine_facts.h"
#include "prepare/token_place.h"
#include "prepare/windows.h"
#include "settings/setting.h"

namespace plimsoll {

namespace {

void demand(bool gpu, bool unverified) {
  if (!gpu || unverified) return;
  throw config_error("E-CUDA-UNVERIFIED", "--device cuda",
                     "it runs on an H100, but not all of its tests have passed there (docs/gpu.md)",
                     "--unverified, to try it all the same", {"--device cuda --unverified", "--device cpu"});
}

void tell_notes(const Config& config) {
  for (const std::string& note : config.notes) say_line(fmt::format("note: {}", note));
}

}  // namespace

Config load_settings(const ConfigArguments& arguments, const Bf16Speed& bf16) {
  Config loaded = load_config(arguments.file, sets_of(arguments), budgets_of(arguments), bf16);
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
  return read_run_settings(arguments.file, sets_of(arguments), budgets_of(arguments));
}

Config load_settings(RunSettings& settings) {
  Config loaded = load_config(settings);
  settle(loaded);
  return loaded;
}

std::optional<std::string> length_of_epochs(const Config& config) {
  if (!assume_missing_data(config).empty()) {
    say_line(fmt::format("note: train.epochs = {:g} without the data: planned for {} updates", *config.train.epochs,
                         config.train.updates));
    return {};
  }
  const TokenFile train = open_training_in_child(config, cache_folder());
  return fmt::format("train.updates={}", updates_of_epochs(config, train));
}

ConfigArguments with_length(ConfigArguments arguments) {
  const Config config = load_config(arguments.file, sets_of(arguments), budgets_of(arguments));
  if (!config.train.open) return arguments;
  if (std::optional<std::string> length = length_of_epochs(config)) arguments.sets.push_back(*std::move(length));
  return arguments;
}

std::vector<std::string> sets_of(const ConfigArguments& arguments) {
  std::vector<std::string> sets = arguments.sets;
  if (!arguments.device.empty()) sets.push_back("machine.device=" + arguments.device);
  if (arguments.unverified) sets.push_back("machine.unverified=true");
  return sets;
}

BudgetOptions budgets_of(const ConfigArguments& arguments) {
  return {arguments.budgets.memory, arguments.budgets.host_memory, arguments.budgets.disk};
}

void settle(const Config& config) {
  tell_notes(config);
  if (config.memory.disk) {
    check_disk_folder(*config.memory.disk);
    create_disk_folder(*config.memory.disk);
  }
}

void demand_verified(const Config& config) { demand(config.device == DeviceChoice::cuda, config.unverified); }

bool wants_gpu(const ConfigArguments& arguments) {
  Config config;
  if (!arguments.device.empty())
    config_key("machine.device").set(config, budget_setting("machine.device", "--device", arguments.device));
  demand(config.device == DeviceChoice::cuda, arguments.unverified);
  return config.device == DeviceChoice::cuda;
}

BaseFormat base_format(const std::vector<std::string>& sets, std::string_view command) {
  Config config;
  std::vector<std::string> notes;
  ConfigFaults faults;
  for (const KeySetting& one : find_keys(typed_settings(sets, {}), notes, faults)) {
    if (one.key->name == "quantize.base") {
      faults.attempt([&] { one.set(config, one.setting); });
      continue;
    }
    faults.attempt([&] {
      throw config_error("E-USAGE", "--set", fmt::format("{} does not use {}", command, one.setting.name),
                         "quantize.base; the model is that of --weights");
    });
  }
  faults.check();
  return config.base;
}

void check_threads(int threads) {
  if (threads >= 0 && threads <= kMaxThreads) return;
  throw config_error("E-USAGE", "--threads", fmt::format("it is {}", threads),
                     fmt::format("from 1 to {}, or 0 for all cores", kMaxThreads));
}

MemorySettings load_budgets(const BudgetArguments& budgets) {
  Config config;
  const auto apply = [&](const char* key, const char* option, const std::optional<std::string>& text) {
    if (text) config_key(key).set(config, budget_setting(key, option, *text));
  };
  apply("memory.budget", "--memory", budgets.memory);
  apply("memory.host_memory", "--host-memory", budgets.host_memory);
  apply("memory.disk", "--disk", budgets.disk);
  tell_notes(config);
  if (config.memory.disk) create_disk_folder(*config.memory.disk);
  return config.memory;
}

}  // namespace plimsoll
