// A model family as the rest of the program sees it: data and functions. A folder of models/ makes one; models/all.h lists them.
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
struct GgufModel;
struct GgufLayout;  // formats/gguf/gguf_layout.h

// GGUF files of a family, whose general.architecture is its kind.
struct GgufForm {
  // The keys as config.json has them, without ids of tokens. They may mean a model of another family.
  void (*config)(const GgufModelKeys&, nlohmann::ordered_json& json) = nullptr;
  GgufLayout (*layout)(const GgufModelKeys&) = nullptr;
  // A model for a file; E-EXPORT-MODEL where a file cannot hold it.
  GgufModel (*describe)(const ModelConfig&) = nullptr;
};

// Facts about a model that others need without knowing its kind.
struct ModelFacts {
  std::int64_t vocab = 0;       // token ids are below it; 0: it reads no tokens
  std::int64_t positions = 0;   // tokens of a sample, at most
  bool open_ended = false;      // it computes more than `positions`, too, for which it was not made
  bool bytes = false;           // token ids are the bytes of a text
  double chance_loss = 0;       // nats of a unit, of a model that knows nothing
  double parameters = 0;        // about so many
  double values_per_token = 0;  // that a forward pass computes, about
};

// A key of [model] that only some families have.
struct ModelKey {
  std::string_view name;  // "layers"
  // A size of the blocks, which stands before model.context; the others stand behind it.
  bool size = false;
  bool required = false;     // of a model without preset and folder
  bool of_folder = true;     // a folder brings it: it cannot be given beside one
  bool new_weights = false;  // it counts for new weights alone
  OnResume on_resume = OnResume::never;
  std::string_view comment;  // one line for people
  std::string_view example;  // a TOML value
  ModelConfig (*set)(const ModelConfig&, const Setting&) = nullptr;
  std::string (*text)(const ModelConfig&) = nullptr;  // the TOML value; "" where it cannot be said
  // The step in which a size may grow as far as memory goes; the size is a multiple of it. Null: it is no such size.
  std::int64_t (*step)(const ModelConfig&) = nullptr;
};

struct ModelPreset {
  std::string_view name;
  ModelConfig config;
};

// True if two models compute the same with given weights, dropout aside.
bool same_shape(const ModelConfig& a, const ModelConfig& b);

// A fault, or a doubt, about what keys say together.
struct ModelRemark {
  std::string code;                    // of a fault
  std::vector<std::string_view> keys;  // "model.heads": the first that is given is the place
  std::string what, expected;
};

struct Family {
  std::string_view kind;   // "gpt2", as model.kind and model_type say
  std::string_view title;  // "GPT-2"
  ModelConfig (*defaults)() = nullptr;
  std::span<const ModelPreset> (*presets)() = nullptr;
  std::span<const ModelKey> (*keys)() = nullptr;

  // config.json. What changes numbers and is not computed is refused by name: data_error E-FORMAT-CONFIG.
  ModelConfig (*read)(const ConfigReader&) = nullptr;
  // The same file in a folder, whole or not at all. One that is there is patched: keys that the family does not know stay. The
  // type of the tensors is said by whoever writes those.
  void (*write)(const ModelConfig&, const std::filesystem::path& folder) = nullptr;
  ModelGraph (*build)(const ModelConfig&, const BatchShape&, const BuildOptions&) = nullptr;
  // The names that a parameter may have in files; a new model is written with the first one. Where a file has several of them
  // they are tied: they hold the same numbers.
  std::vector<std::string> (*stored)(const ModelConfig&, std::string_view parameter) = nullptr;
  // Tensors that files may hold beside the parameters.
  bool (*ignored)(std::string_view stored) = nullptr;
  // The parameter's name in the module tree of transformers. Null: its own.
  std::string (*in_modules)(std::string_view parameter) = nullptr;
  // Null: no GGUF file holds the family.
  const GgufForm* gguf = nullptr;

  ModelFacts (*facts)(const ModelConfig&) = nullptr;
  std::string (*describe)(const ModelConfig&) = nullptr;  // "gpt2 of 4 layers, width 256"
  std::optional<ModelRemark> (*fault)(const ModelConfig&) = nullptr;
  std::vector<ModelRemark> (*doubts)(const ModelConfig&) = nullptr;
  // The same model for other tokens, or for other samples; null where it reads no tokens.
  ModelConfig (*with_vocabulary)(const ModelConfig&, std::int64_t vocab, bool bytes) = nullptr;
  ModelConfig (*with_positions)(const ModelConfig&, std::int64_t positions) = nullptr;
};

// Tokens of a sample that can be computed, at most.
inline std::int64_t most_positions(const ModelFacts& facts) { return facts.open_ended ? std::int64_t{1} << 24 : facts.positions; }

inline ModelFacts facts_of(const ModelConfig& config) { return config.family().facts(config); }
inline std::string name_in_modules(const ModelConfig& config, std::string_view parameter) {
  const auto rename = config.family().in_modules;
  return rename == nullptr ? std::string(parameter) : rename(parameter);
}
// Unchanged where it reads no tokens.
inline ModelConfig with_vocabulary(const ModelConfig& config, std::int64_t vocab, bool bytes) {
  const auto change = config.family().with_vocabulary;
  return change == nullptr ? config : change(config, vocab, bytes);
}
inline ModelConfig with_positions(const ModelConfig& config, std::int64_t positions) {
  const auto change = config.family().with_positions;
  return change == nullptr ? config : change(config, positions);
}

}  // namespace plimsoll
