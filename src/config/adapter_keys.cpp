#include "config/adapter_keys.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include "adapters/peft_folder.h"
#include "config/config_rules.h"
#include "config/key_access.h"
#include "formats/weights_folder.h"
#include "models/all.h"

namespace plimsoll {
namespace {

using C = Config;
using S = Setting;
using Text = std::string;

constexpr Named<AdapterKind> kKinds[] = {{AdapterKind::none, "none"}, {AdapterKind::lora, "lora"}, {AdapterKind::dora, "dora"}};
constexpr std::int64_t kMostRank = 1 << 16;
constexpr double kMostAlpha = 1e9;

// "q_proj=16": a regular expression for the end of a module's name, and a number.
std::vector<PatternNumber> pattern_numbers(const S& setting, double low, double most, bool whole) {
  std::vector<PatternNumber> list;
  for (const std::string& each : names(setting)) {
    const std::size_t equals = each.rfind('=');
    double number = 0;
    const char* const end = each.data() + each.size();
    bool good = equals != std::string::npos && equals > 0;
    if (good) {
      const char* begin = each.data() + equals + 1;
      while (begin != end && *begin == ' ') ++begin;
      const auto [at, error] = std::from_chars(begin, end, number);
      good = error == std::errc{} && at == end && number >= low && number <= most && (!whole || number == std::floor(number));
    }
    if (!good) throw type_error(setting, "a list of patterns with a number each: [\"q_proj=16\", \"layers.0.mlp.*=4\"]");
    std::string pattern = each.substr(0, equals);
    while (pattern.ends_with(' ')) pattern.pop_back();
    list.push_back({std::move(pattern), number});
  }
  return list;
}

Text pattern_text(const std::vector<PatternNumber>& patterns) {
  std::vector<std::string> list;
  for (const PatternNumber& each : patterns) list.push_back(fmt::format("{}={}", each.pattern, each.number));
  return unless_empty(list);
}

ModuleSet modules(const S& setting) {
  if (const auto* one = std::get_if<std::string>(&setting.value)) {
    if (*one == "all-linear") return {};
    if (!one->empty()) return {ModuleSet::Kind::expression, {*one}};
  }
  ModuleSet set{ModuleSet::Kind::names, names(setting)};
  if (set.names.empty()) throw type_error(setting, "\"all-linear\", a list of names, or a regular expression");
  return set;
}

Text modules_text(const ModuleSet& set) {
  switch (set.kind) {
    case ModuleSet::Kind::all_linear: return toml_text("all-linear");
    case ModuleSet::Kind::expression: return toml_text(set.names.at(0));
    case ModuleSet::Kind::names: break;
  }
  return names_text(set.names);
}

bool has_adapter(const C& c) { return c.adapter.active(); }

// The order of names in a list has no effect.
AdapterSettings sorted(AdapterSettings settings) {
  for (std::vector<std::string>* list : {&settings.targets.names, &settings.excluded, &settings.modules_to_save}) {
    std::ranges::sort(*list);
  }
  return settings;
}

// The base of the adapter becomes the model, unless a key names one.
void take_base(C& config, const GivenSettings& given, const PeftAdapter& adapter) {
  for (const ConfigKey& key : config_keys()) {
    const bool shape = section_of(key.name) == "model" && key.name != "model.context" && key.name != "model.dropout";
    if (shape && given.has(key.name)) return;
  }
  try {
    config.model.init = base_of(adapter);
  } catch (Error& error) {
    if (error.code == "E-ADAPTER-BASE") error.remedies = {Change("model.init", "BASE")};
    throw;
  }
  config.model.config = read_model(config.model.init);
  config.model.context = facts_of(config.model.config).positions;
  for (const std::string_view beside : {"model.context", "model.dropout"}) {
    if (const Setting* setting = given.find(beside)) config_key(beside).set(config, *setting);
  }
}

}  // namespace

std::vector<std::string> names(const Setting& setting) {
  if (const auto* list = std::get_if<std::vector<std::string>>(&setting.value)) return *list;
  if (const auto* none = std::get_if<std::vector<double>>(&setting.value); none != nullptr && none->empty()) return {};
  if (const auto* one = std::get_if<std::string>(&setting.value); one != nullptr && setting.typed) {
    return one->empty() ? std::vector<std::string>{} : std::vector{*one};
  }
  throw type_error(setting, "a list of texts: [\"...\", \"...\"]");
}

std::string unless_empty(const std::vector<std::string>& list) { return list.empty() ? "" : names_text(list); }

std::string names_text(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "[" : ", ") + toml_text(name);
  return text.empty() ? "[]" : text + "]";
}

std::vector<ConfigKey> adapter_keys() {
  std::vector<ConfigKey> keys{
      {"adapter.kind", OnResume::never, "lora or dora: small matrices are trained, and the model is frozen", "\"lora\"",
       name_at(PLIMSOLL_FIELD(adapter.kind), kKinds)},
      {"adapter.init", OnResume::place, "a PEFT folder with the initial adapter; it defines all other keys but dropout",
       "\"adapter\"", key_at(PLIMSOLL_FIELD(adapter.init), [](const S& s) { return weights_folder(path(s)); })},
      {"adapter.rank", OnResume::never, "rows of A and columns of B", "16", whole_at(PLIMSOLL_FIELD(adapter.rank), 1, kMostRank)},
      {"adapter.alpha", OnResume::forced, "the adapter counts alpha / rank times", "32.0",
       number_at(PLIMSOLL_FIELD(adapter.alpha), 0, kMostAlpha)},
      {"adapter.rs", OnResume::forced, "rsLoRA: alpha / sqrt(rank) instead", "false", key_at(PLIMSOLL_FIELD(adapter.rs), flag)},
      {"adapter.dropout", OnResume::results, "on the input of the adapter", "0.05",
       number_at(PLIMSOLL_FIELD(adapter.dropout), 0, kBelowOne)},
      {"adapter.targets", OnResume::never,
       "layers that get one: \"all-linear\", a list of names or ends of names, or one regular expression for whole names",
       "[\"q_proj\", \"v_proj\"]", key_at(PLIMSOLL_FIELD(adapter.targets), modules, modules_text)},
      {"adapter.exclude", OnResume::never, "layers that get none all the same: names or ends of names",
       "[\"layers.0.mlp.up_proj\"]", key_at(PLIMSOLL_FIELD(adapter.excluded), names, unless_empty)},
      {"adapter.rank_pattern", OnResume::never,
       "other ranks of some layers: a regular expression for the end of a name and a number, the first one counts",
       "[\"down_proj=4\"]",
       key_at(
           PLIMSOLL_FIELD(adapter.rank_pattern), [](const S& s) { return pattern_numbers(s, 1, kMostRank, true); },
           pattern_text)},
      {"adapter.alpha_pattern", OnResume::forced, "likewise other alphas", "[\"down_proj=8\"]",
       key_at(
           PLIMSOLL_FIELD(adapter.alpha_pattern), [](const S& s) { return pattern_numbers(s, 0, kMostAlpha, false); },
           pattern_text)},
      {"adapter.modules_to_save", OnResume::never, "modules that are trained whole in addition, by the ends of their names",
       "[\"embed_tokens\", \"lm_head\"]", key_at(PLIMSOLL_FIELD(adapter.modules_to_save), names, unless_empty)},
  };
  // The keys are written for configurations with an adapter.
  for (ConfigKey& key : keys) key.access = written_if(has_adapter, std::move(key.access));
  return keys;
}

void complete_adapter(Config& config, const GivenSettings& given) {
  AdapterSettings& adapter = config.adapter;
  const std::vector<ConfigKey> keys = adapter_keys();
  if (adapter.init.empty()) {
    if (adapter.active()) return;
    const bool off = given.has("adapter.kind");
    for (const ConfigKey& key : keys) {
      if (off || !given.has(key.name)) continue;
      throw config_error("E-CONFIG-MISSING", given.where(key.name), fmt::format("{} is given, and adapter.kind is not", key.name),
                         "a kind of adapter, or a folder in adapter.init", {Change("adapter.kind", "lora")});
    }
    adapter = {};
    return;
  }
  const PeftAdapter folder = read_peft_folder(adapter.init);
  Config by_folder = config;
  by_folder.adapter = folder.settings;
  Config by_keys = config;
  if (!by_keys.adapter.active()) by_keys.adapter.kind = folder.settings.kind;
  const Config sorted_folder = [&] {
    Config c = by_folder;
    c.adapter = sorted(c.adapter);
    return c;
  }();
  by_keys.adapter = sorted(by_keys.adapter);
  for (const ConfigKey& key : keys) {
    if (key.name == "adapter.init" || key.name == "adapter.dropout" || !given.has(key.name)) continue;
    const Text here = key.text(by_keys), there = key.text(sorted_folder);
    if (here == there) continue;
    throw config_error("E-ADAPTER-CONTRADICTION", given.where(key.name),
                       fmt::format("{} is {}, and the adapter in {} says {}", key.name, here.empty() ? "nothing" : here,
                                   adapter.init.string(), there.empty() ? "nothing" : there),
                       "the value of the folder, or no key: the folder defines it");
  }
  const double dropout = adapter.dropout;
  adapter = folder.settings;
  if (given.has("adapter.dropout")) adapter.dropout = dropout;
  take_base(config, given, folder);
}

void check_frozen(Config& config, const GivenSettings& given) {
  if (!config.adapter.active()) return;
  if (!config.model.freeze.empty()) {
    throw config_error("E-CONFIG-CONFLICT", given.where("model.freeze"),
                       "model.freeze is given, and all of the model is frozen under an adapter",
                       "without it; adapter.modules_to_save names modules to train in addition");
  }
  if (config.model.init.empty()) {
    config.notes.push_back(fmt::format("{}: the model under the adapter is random numbers, since model.init is not given",
                                       given.where("adapter.kind")));
  }
}

}  // namespace plimsoll
