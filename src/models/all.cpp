#include "models/all.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/config_json.h"
#include "models/gguf.h"
#include "models/timm.h"

namespace plimsoll {
namespace {

std::vector<const Family*>& list() {
  static std::vector<const Family*> families{&kGpt2, &kLlama, &kMistral, &kQwen2, &kQwen3, &kVit, &kResnet, &kMobilenetV2};
  return families;
}

ModelConfig read_timm(const std::filesystem::path& folder, const ConfigReader& reader) {
  const TimmModel model(folder, reader);
  for (const Family* family : families()) {
    if (family->of_timm != nullptr && family->of_timm(model.architecture())) return family->read_timm(model);
  }
  throw model.refuse("vit_SIZE_patchP_N, resnet18 to resnet152 or mobilenetv2_NNN of timm");
}

}  // namespace

std::span<const Family* const> families() { return list(); }

void add_family(const Family& family) { list().push_back(&family); }

// Checks the kind first: another kind may have other names for its sizes.
ModelConfig read_model(const std::filesystem::path& folder) {
  const ConfigReader reader = config_of_model(folder);
  const nlohmann::json type = reader.json().value("model_type", nlohmann::json());
  if (const std::string architecture = timm_architecture(reader); !architecture.empty()) return read_timm(folder, reader);
  std::string known;
  for (const Family* family : families()) {
    if (type == nlohmann::json(family->kind)) return family->read(reader);
    known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", family->kind);
  }
  if (type.is_null()) {
    throw reader.refuse("model_type is missing",
                        fmt::format("a line \"model_type\" with the kind of the model: one of {}", known));
  }
  throw reader.refuse(fmt::format("model_type is {}, and Plimsoll has no such model", ConfigReader::shown(type)),
                      "a model of type " + known);
}

const ModelConfig& model_preset(std::string_view name) {
  for (const Family* family : families()) {
    if (family->presets == nullptr) continue;
    for (const ModelPreset& preset : family->presets()) {
      if (preset.name == name) return preset.config;
    }
  }
  throw config_error("E-CONFIG-PRESET", "model.preset", fmt::format("'{}' is not a preset", name),
                     "one of " + joined(model_preset_names()), {"plimsoll init gpt2"});
}

std::vector<std::string_view> model_preset_names() {
  std::vector<std::string_view> names;
  for (const Family* family : families()) {
    if (family->presets == nullptr) continue;
    for (const ModelPreset& preset : family->presets()) names.push_back(preset.name);
  }
  return names;
}

bool same_shape(const ModelConfig& a, const ModelConfig& b) {
  if (&a.family() != &b.family() || facts_of(a).positions != facts_of(b).positions) return false;
  return std::ranges::all_of(
      a.family().keys(), [&](const ModelKey& key) { return !key.of_folder || key.new_weights || key.text(a) == key.text(b); });
}

std::string joined(std::span<const std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

}  // namespace plimsoll
