#include "config/config.h"

#include <fmt/core.h>

#include <tuple>

#include "base/hash.h"
#include "config/config_keys.h"
#include "config/config_rules.h"
#include "data/data_kinds.h"
#include "device/cpu/library_gemm.h"
#include "device/machine_facts.h"

namespace plimsoll {
namespace {

// One setting per key; a later setting overrides an earlier one.
class Merged {
 public:
  Merged() : settings_(config_keys().size()) {}

  void put(KeySetting setting) { slot(*setting.key) = std::move(setting); }

  // Two names for one key in the same file must not contradict each other.
  void put_from_file(KeySetting setting) {
    const std::optional<KeySetting>& before = slot(*setting.key);
    if (before && !(before->alone() == setting.alone())) {
      throw config_error("E-CONFIG-TWICE", setting.setting.where,
                         fmt::format("{} is {} and {} ({}) is {}", setting.setting.name, setting.setting.text,
                                     before->setting.name, before->setting.where, before->setting.text),
                         fmt::format("both mean {}; keep one of them", setting.key->name));
    }
    put(std::move(setting));
  }

  // The effects of other programs' values on further keys, once the values in force are known.
  void put_implied(ConfigFaults& faults) {
    std::vector<KeySetting> origins;
    for (const std::optional<KeySetting>& each : settings_) {
      if (each && !each->implied.empty()) origins.push_back(*each);
    }
    for (const KeySetting& origin : origins) {
      for (const ImpliedSetting& implied : origin.implied) {
        faults.attempt([&] { put_implied(origin.setting, implied); });
      }
    }
  }

  // A value that its key refuses is a fault, and is left out from here on.
  void leave_out_faulty(ConfigFaults& faults) {
    for (std::optional<KeySetting>& each : settings_) {
      if (!each || each->key->name == "model.init" || each->key->name == "adapter.init") continue;  // these read files
      if (!faults.attempt({each->key->name}, [&] { each->alone(); })) each.reset();
    }
  }

  KeySettings& settings() { return settings_; }

 private:
  void put_implied(const Setting& origin, const ImpliedSetting& implied) {
    using enum ImpliedSetting::Kind;
    const ConfigKey& key = config_key(implied.key);
    std::optional<KeySetting>& there = slot(key);
    const std::string said = fmt::format("{} is {}", origin.name, origin.text);
    if (implied.kind == required) {
      if (there) return;
      throw config_error("E-CONFIG-MISSING", origin.where, fmt::format("{}, and {} is not given", said, key.name),
                         "both: one belongs to the other", {Change(std::string(key.name), std::string(key.example))});
    }
    if (implied.kind == absent) {
      if (!there || there->alone() == Config{}) return;
      throw config_error("E-CONFIG-CONFLICT", there->setting.where,
                         fmt::format("{} is given, and {}, a name that means none in its program", there->setting.name, said),
                         "without it, or \"constant_with_warmup\"");
    }
    const bool half_lives = key.name == "optimizer.betas" && slot(config_key("optimizer.half_lives"));
    if (implied.kind == usual && (there || half_lives)) return;
    Setting setting{std::string(key.name), origin.where, origin.base, origin.typed, implied.value, origin.text};
    KeySetting one{std::move(setting), &key, key.access.set, {}, /*follows=*/true};
    one.setting.earlier = origin.earlier;
    if (there && counts_before(there->setting, origin)) return;
    if (there && !counts_before(origin, there->setting) && !(there->alone() == one.alone())) {
      throw config_error("E-CONFIG-TWICE", there->setting.where,
                         fmt::format("{} is {}, which contradicts {}", there->setting.name, there->setting.text, said),
                         fmt::format("one of them; both mean {}", key.name));
    }
    there = std::move(one);
  }

  std::optional<KeySetting>& slot(const ConfigKey& key) {
    return settings_[static_cast<std::size_t>(&key - config_keys().data())];
  }

  KeySettings settings_;
};

}  // namespace

std::vector<Setting> typed_settings(std::span<const Change> changes, std::string (*where)(const Change&)) {
  ConfigFaults faults;
  std::vector<Setting> settings;
  for (const Change& change : changes) {
    faults.attempt([&] { settings.push_back(typed_setting(change, where != nullptr ? where(change) : change.key)); });
  }
  faults.check();
  return settings;
}

std::string_view precision_name(DType dtype) {
  switch (dtype) {
    case DType::f32: return "fp32";
    case DType::f16: return "fp16";
    case DType::u8: return "8bit";
    default: return name(dtype);
  }
}

bool operator==(const Config& a, const Config& b) {
  const auto all = [](const Config& c) {
    return std::tie(c.seed, c.model, c.adapter, c.data, c.image, c.batch, c.norm, c.train, c.save, c.stop, c.records, c.optimizer,
                    c.schedule, c.plan, c.memory, c.parallel, c.precision, c.base, c.threads, c.device, c.unverified,
                    c.gpu_graphs, c.links);
  };
  return all(a) == all(b);
}

Bf16Speed bf16_speed_here() {
  const std::optional<cpu::LibraryFacts> library = cpu::library_facts();
  if (!library) return {false, "this build has no library that multiplies bf16"};
  const bool fast = library->multiplies_bf16;
  return {fast, fmt::format("this processor has {}instructions for products of bf16", fast ? "" : "no ")};
}

Config load_config(const std::filesystem::path& path, std::vector<Setting> typed, const Bf16Speed& bf16) {
  return config_of(read_settings(path), typed, path.string(), bf16);
}

Config config_of(const std::vector<Setting>& file, std::vector<Setting>& typed, const std::string& name, const Bf16Speed& bf16) {
  Config config;
  Merged merged;
  ConfigFaults faults;
  for (KeySetting& setting : find_keys(file, config.notes, faults)) {
    faults.attempt([&] { merged.put_from_file(std::move(setting)); });
  }
  for (KeySetting& setting : find_keys(typed, config.notes, faults)) merged.put(std::move(setting));

  merged.leave_out_faulty(faults);
  merged.put_implied(faults);
  leave_aside(merged.settings(), config.notes);
  typed.clear();
  for (const std::optional<KeySetting>& setting : merged.settings()) {
    if (setting && setting->setting.typed && !setting->follows) typed.push_back(setting->setting);
  }
  const GivenSettings given(merged.settings(), name);
  faults.attempt({"model.init"}, [&] { check_init_alone(given); });
  for (const std::optional<KeySetting>& setting : merged.settings()) {
    if (setting) faults.attempt({setting->key->name}, [&] { setting->set(config, setting->setting); });
  }
  complete(config, given, bf16, faults);
  faults.check();
  return config;
}

Config with_changes(Config config, std::span<const Change> changes) {
  ConfigFaults faults;
  const std::vector<KeySetting> settings = find_keys(typed_settings(changes), config.notes, faults);
  faults.check();
  for (const KeySetting& setting : settings) setting.set(config, setting.setting);
  return config;
}

std::string resolved_toml(const Config& config) {
  std::string text;
  std::string_view section;
  for (const ConfigKey& key : config_keys()) {
    const std::string value = text_of(key, config);
    if (value.empty()) continue;
    if (section_of(key.name) != section) text += fmt::format("\n[{}]\n", section = section_of(key.name));
    text += fmt::format("{} = {}\n", leaf_of(key.name), value);
  }
  return text;
}

std::string config_hash(const Config& config) { return hash_hex(resolved_toml(config)); }

RunLength run_length(const Config& config) { return {config.train.effective_batch, config.model.context, config.train.updates}; }

std::int64_t evaluation_interval(const Config& config) { return in_updates(config.train.evaluate_every, run_length(config)); }

bool has_validation(const Config& config) { return !config.data.validation.empty() || config.data.validation_share > 0; }

std::int64_t shown_samples(const Config& config) {
  constexpr std::int64_t kUsual = 2;
  const bool converses = data_kind(config.data.format).renders && has_validation(config);
  return config.train.show_samples.value_or(converses ? kUsual : 0);
}

bool keeps_best_weights(const Config& config) {
  return config.save.best_weights && has_validation(config) && evaluation_interval(config) > 0;
}

double learning_rate_at(const Config& config, std::int64_t samples_before) {
  return config.optimizer.learning_rate * schedule_factor(config.schedule, run_length(config), samples_before);
}

double momentum_at(const Config& config, std::int64_t samples_before) {
  const OptimizerChoice& optimizer = config.optimizer;
  const double usual = optimizer.kind == OptimizerKind::sgd ? optimizer.momentum : optimizer.beta1;
  return scheduled_momentum(config.schedule, run_length(config), samples_before, usual);
}

}  // namespace plimsoll
