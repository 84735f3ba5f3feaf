#include "weights/model_source.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "adapters/adapter.h"
#include "adapters/peft_folder.h"
#include "base/error.h"
#include "formats/file.h"
#include "formats/safetensors.h"
#include "formats/tokenizer_folder.h"
#include "formats/weights_folder.h"
#include "models/all.h"
#include "models/gguf.h"
#include "models/shared_keys.h"
#include "weights/weights.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// A tied table saved under one of its names counts as saved under both.
AdapterSettings with_tied_names(AdapterSettings settings, const Graph& graph, const ModelConfig& config) {
  for (const ValueId id : graph.parameters()) {
    std::vector<std::string> modules = names_in_adapter(config, graph.values[id].name.text());
    for (std::string& name : modules) name.resize(std::min(name.size(), name.rfind('.')));
    const bool saved = std::ranges::any_of(settings.modules_to_save, [&](const std::string& wanted) {
      return std::ranges::any_of(modules, [&](const std::string& module) { return !wanted.empty() && module.ends_with(wanted); });
    });
    if (saved && modules.size() == 2) std::ranges::move(modules, std::back_inserter(settings.modules_to_save));
  }
  return settings;
}

// The model with the last layer of the adapter, if that was trained whole and the base has none of the same classes.
ModelConfig with_head_of(const AdapterSettings& settings, const ModelConfig& model, const fs::path& base) {
  const ModelFacts facts = facts_of(model);
  if (facts.classes == 0 || settings.init.empty() || !is_there(settings.init / kAdapterFile)) return model;
  const SafetensorsFile file = SafetensorsFile::open(settings.init / kAdapterFile);
  const std::string name = std::string(kAdapterPrefix) + name_in_modules(model, facts.head + ".weight");
  const StoredTensor* head = file.find(name);
  if (head == nullptr) return model;
  if (head->shape.rank() != 2 || head->shape[0] < 1 || head->shape[0] > kMaxClasses) {
    throw data_error("E-ADAPTER-FOLDER", file.path(), fmt::format("{} is {}", name, to_text(head->shape)),
                     fmt::format("(classes, width) of 1 to {} classes", kMaxClasses));
  }
  const WeightFiles files = weights_of_model(base);
  const std::vector<std::string> names = model.family().stored(model, facts.head + ".weight");
  const bool has_head = std::ranges::any_of(names, [&](const std::string& each) { return files.find(each).has_value(); });
  return has_head && head->shape[0] == facts.classes ? model : model.family().with_new_head(model, head->shape[0]);
}

}  // namespace

fs::path ModelSource::tokenizer() const {
  const fs::path& own = adapter.init;
  return own.empty() || !has_vocabulary(own) ? folder : own;
}

std::vector<std::int64_t> ModelSource::ends() const {
  std::vector<std::int64_t> tokens = adapter.init.empty() ? std::vector<std::int64_t>{} : end_tokens(adapter.init);
  return tokens.empty() ? end_tokens(folder) : tokens;
}

ModelSource find_model(const std::string& weights, const std::string& adapter, TiedTables tied) {
  if (weights.empty() && adapter.empty()) {
    throw config_error("E-USAGE", "weights", "no weights are given", "a folder of weights, or of an adapter",
                       {Change("command.weights", "FOLDER"), Change("command.adapter", "FOLDER")});
  }
  ModelSource source;
  fs::path with = adapter.empty() ? fs::path() : weights_folder(adapter);
  source.folder = weights.empty() ? fs::path() : weights_folder(weights);
  if (with.empty() && is_adapter_folder(source.folder)) std::swap(with, source.folder);
  if (!with.empty()) {
    const PeftAdapter peft = read_peft_folder(with);
    source.adapter = peft.settings;
    if (source.folder.empty()) source.folder = base_of(peft);
  }
  source.model = read_model(source.folder);
  if (source.adapter.active()) source.model = with_head_of(source.adapter, source.model, source.folder);
  check_model(source, tied);
  return source;
}

void check_model(const ModelSource& source, TiedTables tied) {
  ModelGraph model = source.model.family().build(source.model, {.evaluate = 1, .tokens = 1}, {});
  if (!source.folder.empty()) check_weights(model.graph, source.model, source.folder);
  if (!source.adapter.active()) return;
  const bool apart = tied == TiedTables::apart;
  add_adapter(model, source.model, apart ? with_tied_names(source.adapter, model.graph, source.model) : source.adapter,
              /*seed=*/0);
  check_adapter(model.graph, source.model, source.adapter, source.folder, tied);
}

}  // namespace plimsoll
