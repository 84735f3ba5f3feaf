// The interface of a model family: data and functions. Each folder of models/ defines some; models/all.h lists them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/model_config.h"
#include "models/model_graph.h"
#include "settings/setting.h"

namespace plimsoll {

class ConfigReader;   // formats/config_json.h
class GgufModelKeys;  // models/gguf.h
class TimmModel;      // models/timm.h
struct GgufModel;
struct GgufLayout;  // formats/gguf/gguf_layout.h

// The GGUF form of a family. It reads files whose general.architecture is the family's kind; written files may have another
// architecture.
struct GgufForm {
  // Puts the keys of config.json, without token ids. They may describe a model of another family.
  void (*config)(const GgufModelKeys&, nlohmann::ordered_json& json) = nullptr;
  GgufLayout (*layout)(const GgufModelKeys&) = nullptr;
  // A model as a file holds it; E-EXPORT-MODEL if it cannot.
  GgufModel (*describe)(const ModelConfig&) = nullptr;
};

// Facts about a model for callers that do not know its kind.
struct ModelFacts {
  std::int64_t vocab = 0;       // token ids are below it; 0: the model reads no tokens
  std::int64_t positions = 0;   // most tokens of a sample
  bool open_ended = false;      // samples may be longer than `positions`, though the model was not made for them
  bool bytes = false;           // token ids are the bytes of a text
  std::int64_t classes = 0;     // of images; 0: the model reads no images
  std::int64_t channels = 0;    // of a pixel
  std::int64_t image_size = 0;  // height and width of an image; 0: any
  bool batch_norm = false;      // layers normalise by statistics of the batch
  std::string head;             // the module of the last layer of a model of classes
  bool new_head = false;        // its parameters are new
  double chance_loss = 0;       // nats per unit of a model that knows nothing
  double parameters = 0;        // number of parameters, approximate
  double values_per_token = 0;  // values per token of a forward pass, approximate
};

// The last layer of a model of classes: that of its folder, or a new one.
enum class Head : std::uint8_t { keep, fresh };
inline std::string attribute_text(Head head) { return head == Head::keep ? "keep" : "new"; }

// A key of [model] of some families.
struct ModelKey {
  std::string_view name;  // "layers"
  // True for a size of the blocks: it is listed before model.context, other keys after it.
  bool size = false;
  bool required = false;     // for a model without preset and folder
  bool of_folder = true;     // the folder gives its value, so it cannot be given as well
  bool of_new_head = false;  // unless the last layer is new
  bool new_weights = false;  // used for new weights alone
  OnResume on_resume = OnResume::never;
  std::string_view comment;  // one line of description
  std::string_view example;  // a TOML value
  ModelConfig (*set)(const ModelConfig&, const Setting&) = nullptr;
  std::string (*text)(const ModelConfig&) = nullptr;  // the TOML value; "" if there is none
  // The step in which a size may grow with the memory; the size stays a multiple of it. Null: the size does not grow.
  std::int64_t (*step)(const ModelConfig&) = nullptr;
};

struct ModelPreset {
  std::string_view name;
  ModelConfig config;
};

// True if two models compute the same function of their weights, apart from dropout.
bool same_shape(const ModelConfig& a, const ModelConfig& b);

// A fault or a doubt about a combination of keys.
struct ModelRemark {
  std::string code;                    // of faults
  std::vector<std::string_view> keys;  // "model.heads": the first given one is the place of the error
  std::string what, expected;
};

struct Family {
  std::string_view kind;   // "gpt2": the value of model.kind and model_type
  std::string_view title;  // "GPT-2"
  ModelConfig (*defaults)() = nullptr;
  std::span<const ModelPreset> (*presets)() = nullptr;
  std::span<const ModelKey> (*keys)() = nullptr;

  // Reads config.json. Unknown settings that change numbers are refused by name: data_error E-FORMAT-CONFIG.
  ModelConfig (*read)(const ConfigReader&) = nullptr;
  // Null: timm has no such models. `of_timm`: true for the name of an architecture.
  bool (*of_timm)(std::string_view architecture) = nullptr;
  ModelConfig (*read_timm)(const TimmModel&) = nullptr;
  // Writes config.json atomically. An existing file is patched: keys that the family does not know stay. The writer of the
  // tensors sets their type.
  void (*write)(const ModelConfig&, const std::filesystem::path& folder) = nullptr;
  ModelGraph (*build)(const ModelConfig&, const BatchShape&, const BuildOptions&) = nullptr;
  // The names of a parameter in files; new files have the first. Several of them in one file are tied: they hold the same
  // numbers.
  std::vector<std::string> (*stored)(const ModelConfig&, std::string_view parameter) = nullptr;
  // Tensors of files that are no parameters. Null: there are none.
  bool (*ignored)(std::string_view stored) = nullptr;
  // The parameter's name in the module tree of transformers. Null: its own.
  std::string (*in_modules)(std::string_view parameter) = nullptr;
  // Null: the family has no GGUF form.
  const GgufForm* gguf = nullptr;

  ModelFacts (*facts)(const ModelConfig&) = nullptr;
  std::string (*describe)(const ModelConfig&) = nullptr;              // "gpt2 of 4 layers, width 256"
  std::optional<ModelRemark> (*fault)(const ModelConfig&) = nullptr;  // null, here and below: none
  std::vector<ModelRemark> (*doubts)(const ModelConfig&) = nullptr;
  // The same model for other tokens or samples; null if it reads no tokens.
  ModelConfig (*with_vocabulary)(const ModelConfig&, std::int64_t vocab, bool bytes) = nullptr;
  ModelConfig (*with_positions)(const ModelConfig&, std::int64_t positions) = nullptr;
  // The same model with a new last layer; null if it has no classes.
  ModelConfig (*with_new_head)(const ModelConfig&, std::int64_t classes) = nullptr;
};

// The most tokens of a sample.
inline std::int64_t most_positions(const ModelFacts& facts) { return facts.open_ended ? std::int64_t{1} << 24 : facts.positions; }

inline ModelFacts facts_of(const ModelConfig& config) { return config.family().facts(config); }
// The smallest graph that has every parameter and a reader of each.
inline BatchShape smallest_shape() { return {.evaluate = 1, .tokens = 1}; }
inline std::string name_in_modules(const ModelConfig& config, std::string_view parameter) {
  const auto rename = config.family().in_modules;
  return rename == nullptr ? std::string(parameter) : rename(parameter);
}
// The names of a parameter in files: its own, and the one without the prefix in files of a model without a head.
inline std::vector<std::string> with_and_without(std::string_view prefix, std::string_view parameter) {
  std::vector<std::string> names{std::string(parameter)};
  if (parameter.starts_with(prefix)) names.emplace_back(parameter.substr(prefix.size()));
  return names;
}
// Unchanged if the family reads no tokens.
inline ModelConfig with_vocabulary(const ModelConfig& config, std::int64_t vocab, bool bytes) {
  const auto change = config.family().with_vocabulary;
  return change == nullptr ? config : change(config, vocab, bytes);
}
inline ModelConfig with_positions(const ModelConfig& config, std::int64_t positions) {
  const auto change = config.family().with_positions;
  return change == nullptr ? config : change(config, positions);
}

}  // namespace plimsoll
