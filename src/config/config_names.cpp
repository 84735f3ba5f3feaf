#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "config/config_aliases.h"
#include "config/config_keys.h"

namespace plimsoll {
namespace {

bool is_section(std::string_view name) {
  return std::any_of(config_keys().begin(), config_keys().end(),
                     [&](const ConfigKey& key) { return section_of(key.name) == name && !name.empty(); });
}

// A key may stand at the top level or in [train] instead of its own section, if its name is unique.
bool may_stand_in(std::string_view section, const ConfigKey& key) {
  constexpr std::string_view kAdapters[] = {"lora", "qlora", "peft", "peft_config", "lora_config"};
  const bool adapter = section_of(key.name) == "adapter" && std::ranges::find(kAdapters, section) != std::end(kAdapters);
  return section.empty() || section == "train" || section == section_of(key.name) || adapter;
}

const ConfigKey* only_key_called(std::string_view leaf) {
  const ConfigKey* found = nullptr;
  for (const ConfigKey& key : config_keys()) {
    if (leaf_of(key.name) != leaf) continue;
    if (found != nullptr) return nullptr;
    found = &key;
  }
  return found;
}

// The key nearest to a name, or "". Of equally near keys, one of the same section is preferred.
std::string suggestion(std::string_view name, std::string_view leaf) {
  if (const ConfigKey* key = only_key_called(leaf)) return std::string(key->name);
  std::vector<std::string> keys, leaves;
  const auto add = [&](std::string_view key, std::string_view called) {
    keys.emplace_back(key);
    leaves.emplace_back(called);
  };
  const auto section = [&](std::string_view key) { return section_of(key) == section_of(name); };
  for (const bool own : {true, false}) {
    for (const ConfigKey& key : config_keys()) {
      if (section(key.name) == own) add(key.name, leaf_of(key.name));
    }
  }
  for (const ConfigAlias& alias : config_aliases()) add(alias.key, alias.name);
  const std::string part = nearest_name(leaf, leaves);
  if (part.empty()) return "";
  return keys[static_cast<std::size_t>(std::find(leaves.begin(), leaves.end(), part) - leaves.begin())];
}

// The advice for a name of another program, by its last or any other part.
std::string_view foreign_advice(std::string_view name) {
  for (; !name.empty(); name = section_of(name)) {
    if (const std::string_view advice = foreign_name_advice(leaf_of(name)); !advice.empty()) return advice;
  }
  return {};
}

Error unknown_key(const Setting& setting, std::string_view name, ConfigFaults& faults) {
  const auto error = [&](std::string expected) {
    return config_error("E-CONFIG-KEY", setting.where, fmt::format("{} is no key of the configuration", setting.name),
                        std::move(expected), {"plimsoll init"});
  };
  if (const std::string_view advice = foreign_advice(name); !advice.empty()) return error(std::string(advice));
  const std::string nearest = suggestion(name, leaf_of(name));
  if (nearest.empty()) return error("`plimsoll init` lists all keys");
  faults.distrust(nearest);
  return error(fmt::format("the nearest is {}", nearest));
}

// Nothing for a flag without effect.
std::optional<KeySetting> find_key(Setting setting, std::vector<std::string>& notes, ConfigFaults& faults) {
  for (const ConfigKey& key : config_keys()) {
    if (key.name == setting.name) return KeySetting{std::move(setting), &key, key.access.set};
  }
  std::string name = setting.name;
  std::replace(name.begin(), name.end(), '-', '_');
  const std::string_view section = section_of(name), leaf = leaf_of(name);
  const auto noted = [&](const ConfigKey& key, SetKey set, std::string_view remark = {}) {
    notes.push_back(
        fmt::format("{}: {} is taken as {}{}{}", setting.where, setting.name, key.name, remark.empty() ? "" : ": ", remark));
    return KeySetting{setting, &key, set};
  };
  const ConfigKey* own = only_key_called(leaf);
  if (own != nullptr && may_stand_in(section, *own)) return noted(*own, own->access.set);
  for (const ConfigAlias& alias : config_aliases()) {
    const ConfigKey& key = config_key(alias.key);
    if (alias.name != leaf || !may_stand_in(section, key)) continue;
    if (alias.off_says_nothing && !flag(setting)) return std::nullopt;
    KeySetting found = noted(key, alias.set != nullptr ? alias.set : key.access.set, alias.remark);
    if (alias.implied != nullptr) found.implied = alias.implied(setting);
    return found;
  }
  throw unknown_key(setting, name, faults);
}

}  // namespace

std::vector<KeySetting> find_keys(std::vector<Setting> settings, std::vector<std::string>& notes, ConfigFaults& faults) {
  std::vector<KeySetting> found;
  for (Setting& setting : settings) {
    faults.attempt([&] {
      const bool named =
          std::ranges::any_of(config_aliases(), [&](const ConfigAlias& alias) { return alias.name == setting.name; });
      if (is_section(setting.name) && !(named && std::holds_alternative<std::string>(setting.value))) {
        const auto* other = std::get_if<OtherValue>(&setting.value);
        if (other != nullptr && other->what == "a table") return;
        throw type_error(setting, fmt::format("a section: [{}]", setting.name));
      }
      if (std::optional<KeySetting> one = find_key(std::move(setting), notes, faults)) found.push_back(*std::move(one));
    });
  }
  return found;
}

}  // namespace plimsoll
