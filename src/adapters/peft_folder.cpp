#include "adapters/peft_folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "adapters/adapter.h"
#include "base/error.h"
#include "formats/bounded_json.h"
#include "formats/file.h"
#include "formats/new_folder.h"
#include "formats/safetensors.h"
#include "formats/weight_files.h"
#include "models/family.h"

namespace plimsoll {
namespace {

using json = nlohmann::ordered_json;  // the first matching pattern counts, so order matters
namespace fs = std::filesystem;

// Keys without influence on the numbers of an existing adapter.
constexpr std::array<std::string_view, 14> kIgnored{
    "auto_mapping",        "inference_mode", "revision",         "peft_version",      "task_type",
    "fan_in_fan_out",      "megatron_core",  "eva_config",       "qalora_group_size", "base_model_name_or_path",
    "ensure_weight_tying", "runtime_config", "base_model_class", "parent_library"};

// Initialisations of A and B that leave the base alone: they do not matter to a trained adapter.
constexpr std::array<std::string_view, 4> kPlainBeginnings{"gaussian", "eva", "orthogonal", "mica"};

class Reader {
 public:
  explicit Reader(const fs::path& folder) : where_((folder / kAdapterConfig).string()) {
    if (!is_there(folder / kAdapterConfig)) {
      throw data_error("E-ADAPTER-FOLDER", folder.string(), fmt::format("there is no {}", kAdapterConfig),
                       "the folder of an adapter, as PEFT's save_pretrained and an adapter's run write it");
    }
    json_ = read_ordered_json_object(folder / kAdapterConfig, {.bytes = 4 << 20}, "E-ADAPTER-FOLDER");
  }

  // Marks the key as understood. An absent key is null.
  const json& get(const char* key) {
    known_.emplace_back(key);
    static const json kNull;
    const auto found = json_.find(key);
    return found == json_.end() ? kNull : *found;
  }

  [[noreturn]] void refuse(const std::string& key, const json& value, std::string expected) const {
    std::string shown = value.dump(-1, ' ', false, json::error_handler_t::replace);
    if (shown.size() > 80) shown = shown.substr(0, 77) + "...";
    throw data_error("E-ADAPTER-FEATURE", where_, fmt::format("{} is {}", key, shown), std::move(expected));
  }

  double number(const char* key, double fallback, double low, double high) {
    const json& value = get(key);
    if (value.is_null()) return fallback;
    const double got = value.is_number() ? value.get<double>() : std::nan("");
    if (!(got >= low && got <= high)) refuse(key, value, fmt::format("a number from {:g} to {:g}", low, high));
    return got;
  }

  bool flag(const char* key) {
    const json& value = get(key);
    if (value.is_null()) return false;
    if (!value.is_boolean()) refuse(key, value, "true or false");
    return value.get<bool>();
  }

  std::vector<std::string> names(const char* key) {
    const json& value = get(key);
    if (value.is_null()) return {};
    if (!value.is_array() || !std::ranges::all_of(value, [](const json& each) { return each.is_string(); })) {
      refuse(key, value, "a list of names");
    }
    return value.get<std::vector<std::string>>();
  }

  std::vector<PatternNumber> patterns(const char* key, double most) {
    const json& value = get(key);
    std::vector<PatternNumber> list;
    if (value.is_null()) return list;
    if (!value.is_object()) refuse(key, value, "an object of numbers");
    for (const auto& [pattern, number] : value.items()) {
      if (!number.is_number() || !(number.get<double>() > 0) || number.get<double>() > most) {
        refuse(fmt::format("{} of '{}'", key, pattern), number, fmt::format("a number above 0, at most {:g}", most));
      }
      list.push_back({pattern, number.get<double>()});
    }
    return list;
  }

  // All other keys have to be neutral.
  void check_rest() const {
    for (const auto& [key, value] : json_.items()) {
      const bool known = std::ranges::find(known_, key) != known_.end() || std::ranges::find(kIgnored, key) != kIgnored.end();
      const bool nothing =
          value.is_null() || value == json(false) || (value.is_structured() && value.empty()) || value == json("");
      if (!known && !nothing) refuse(key, value, "no value: it is not supported");
    }
  }

 private:
  std::string where_;
  json json_;
  std::vector<std::string> known_;
};

ModuleSet targets_of(Reader& reader) {
  const json& value = reader.get("target_modules");
  if (value == json("all-linear")) return {};
  if (value.is_string()) return {ModuleSet::Kind::expression, {value.get<std::string>()}};
  ModuleSet set{ModuleSet::Kind::names, reader.names("target_modules")};
  if (set.names.empty()) reader.refuse("target_modules", value, "\"all-linear\", a list of names, or a regular expression");
  return set;
}

void check_beginning(Reader& reader) {
  const json& value = reader.get("init_lora_weights");
  const bool plain =
      value.is_null() || value.is_boolean() ||
      (value.is_string() && std::ranges::find(kPlainBeginnings, value.get<std::string>()) != kPlainBeginnings.end());
  if (plain) return;
  reader.refuse("init_lora_weights", value,
                "a beginning that leaves the base as it is: convert the adapter with PEFT's "
                "path_initial_model_for_weight_conversion");
}

json as_number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<std::int64_t>(value);
  return value;
}

json as_object(const std::vector<PatternNumber>& patterns) {
  json object = json::object();
  for (const PatternNumber& each : patterns) object[each.pattern] = as_number(each.number);
  return object;
}

json as_list(const std::vector<std::string>& names) { return names.empty() ? json() : json(names); }

json targets_json(const Graph& graph, const ModelConfig& config, const AdapterSettings& settings) {
  switch (settings.targets.kind) {
    case ModuleSet::Kind::names: return settings.targets.names;
    case ModuleSet::Kind::expression: return settings.targets.names.at(0);
    case ModuleSet::Kind::all_linear: break;
  }
  json list = json::array();
  for (const AdaptedLayer& layer : adapted_layers(graph, config, settings)) list.push_back(layer.in_modules);
  return list;
}

}  // namespace

bool is_adapter_folder(const fs::path& folder) { return is_there(folder / kAdapterConfig) && !has_weights(folder); }

PeftAdapter read_peft_folder(const fs::path& folder) {
  constexpr double kMostRank = 1 << 16, kMostAlpha = 1e9;
  Reader reader(folder);
  if (const json& type = reader.get("peft_type"); type != json("LORA")) {
    reader.refuse("peft_type", type, "\"LORA\", the only kind of adapter that is computed");
  }
  PeftAdapter adapter;
  AdapterSettings& settings = adapter.settings;
  settings.init = folder;
  settings.kind = reader.flag("use_dora") ? AdapterKind::dora : AdapterKind::lora;
  settings.rs = reader.flag("use_rslora");
  settings.rank = static_cast<std::int64_t>(reader.number("r", 8, 1, kMostRank));
  settings.alpha = reader.number("lora_alpha", 8, 0, kMostAlpha);
  settings.dropout = reader.number("lora_dropout", 0, 0, 0.999999);
  settings.targets = targets_of(reader);
  const json& excluded = reader.get("exclude_modules");
  if (excluded.is_string() && !excluded.get<std::string>().empty()) {
    reader.refuse("exclude_modules", excluded, "a list of names: expressions are not supported");
  }
  if (!excluded.is_string()) settings.excluded = reader.names("exclude_modules");
  settings.rank_pattern = reader.patterns("rank_pattern", kMostRank);
  settings.alpha_pattern = reader.patterns("alpha_pattern", kMostAlpha);
  settings.modules_to_save = reader.names("modules_to_save");
  check_beginning(reader);
  if (const json& bias = reader.get("bias"); !bias.is_null() && bias != json("none")) {
    reader.refuse("bias", bias, "\"none\": biases of the base stay as they are");
  }
  if (const json& base = reader.get("base_model_name_or_path"); base.is_string()) adapter.base = base.get<std::string>();
  reader.check_rest();
  return adapter;
}

SafetensorsFile open_adapter(const fs::path& folder) {
  if (!is_there(folder / kAdapterFile)) {
    throw data_error("E-ADAPTER-FOLDER", folder.string(), fmt::format("there is no {}", kAdapterFile),
                     "an adapter that PEFT has saved with safe_serialization=True, or a run that has ended");
  }
  return SafetensorsFile::open(folder / kAdapterFile);
}

// A relative name starts from the current folder, as in PEFT, or from the adapter's.
fs::path base_of(const PeftAdapter& adapter) {
  std::error_code ignored;
  const fs::path named = adapter.base;
  const auto holds = [&](const fs::path& model) {
    return fs::exists(model / "config.json", ignored) || (is_there(model) && is_gguf(model));
  };
  if (!named.empty()) {
    if (holds(named)) return fs::absolute(named, ignored);
    if (named.is_relative() && holds(adapter.settings.init / named)) return adapter.settings.init / named;
  }
  const std::string what = named.empty() ? "it names no base" : fmt::format("its base, {}, is not there", named.string());
  throw data_error("E-ADAPTER-BASE", (adapter.settings.init / kAdapterConfig).string(), what,
                   "the folder of the model that the adapter was trained on", {Change("command.weights", "BASE")});
}

MergeCommand merge_command(const fs::path& adapter) {
  fs::path out = adapter.filename() == "weights" ? adapter.parent_path() : adapter;
  out += "-merged";
  std::error_code ignored;
  if (fs::exists(out, ignored)) out = new_folder_beside(out);
  Changes changes{{"command.adapter", adapter.string()}, {"command.out", out.string()}};
  try {
    base_of(read_peft_folder(adapter));
  } catch (const Error&) {
    changes.emplace(changes.begin(), "command.weights", "BASE");
  }
  return {Remedy::of_command("merge", std::move(changes)), out};
}

std::string peft_config_text(const Graph& graph, const ModelConfig& config, const AdapterSettings& settings,
                             const fs::path& base) {
  const auto linear =
      std::ranges::find_if(graph.values, [](const Value& value) { return value.parameter && value.parameter->inputs_first; });
  std::error_code ignored;
  json object = {{"peft_type", "LORA"},
                 {"task_type", facts_of(config).classes > 0 ? json() : json("CAUSAL_LM")},
                 {"base_model_name_or_path", base.empty() ? json() : json(fs::absolute(base, ignored).string())},
                 {"inference_mode", true},
                 {"r", settings.rank},
                 {"lora_alpha", as_number(settings.alpha)},
                 {"lora_dropout", settings.dropout},
                 {"use_rslora", settings.rs},
                 {"use_dora", settings.kind == AdapterKind::dora},
                 {"target_modules", targets_json(graph, config, settings)},
                 {"exclude_modules", as_list(settings.excluded)},
                 {"rank_pattern", as_object(settings.rank_pattern)},
                 {"alpha_pattern", as_object(settings.alpha_pattern)},
                 {"modules_to_save", as_list(settings.modules_to_save)},
                 {"bias", "none"},
                 {"fan_in_fan_out", linear != graph.values.end()},
                 {"init_lora_weights", true},
                 {"layers_to_transform", nullptr},
                 {"layers_pattern", nullptr},
                 {"revision", nullptr}};
  return object.dump(2, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace) + "\n";
}

std::vector<AdapterTensor> adapter_tensors(const Graph& graph, const ModelConfig& config) {
  std::vector<AdapterTensor> tensors;
  for (const ValueId id : graph.parameters()) {
    const ParameterInfo& parameter = *graph.values[id].parameter;
    if (parameter.kind != ParameterKind::trained) continue;
    for (const std::string& name : names_in_adapter(config, graph.values[id].name.text())) {
      tensors.push_back({std::string(kAdapterPrefix) + name, id});
    }
  }
  return tensors;
}

}  // namespace plimsoll
