// GPT-2 (Radford et al., 2019): learned positions, pre-LN blocks, tanh-GELU, dropout. Parameters carry the names of a
// Hugging Face file, matrices its layout ([inputs, outputs]).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "models/family.h"

namespace plimsoll {

struct Gpt2Config {
  std::int64_t layers = 12;
  std::int64_t width = 768;
  std::int64_t heads = 12;
  std::int64_t context = 1024;  // n_positions: rows of the position embedding
  std::int64_t vocab = 50257;
  double layer_norm_epsilon = 1e-5;
  double embedding_dropout = 0.1;
  double attention_dropout = 0.1;
  double residual_dropout = 0.1;
  double initializer_range = 0.02;
  bool byte_vocabulary = false;  // token ids are the bytes of the text; there is no vocab.json
  bool tied = true;              // the token table is also the head

  const Gpt2Config& settled() const { return *this; }  // no size stands for a rule

  friend bool operator==(const Gpt2Config&, const Gpt2Config&) = default;
  template <class V>
  void fields(V&& v) const {
    v("layers", layers), v("width", width), v("heads", heads), v("context", context), v("vocab", vocab);
    v("layer_norm_epsilon", layer_norm_epsilon), v("embedding_dropout", embedding_dropout);
    v("attention_dropout", attention_dropout), v("residual_dropout", residual_dropout);
    v("initializer_range", initializer_range), v("byte_vocabulary", byte_vocabulary);
    if (!tied) v("tied", tied);
  }
};

extern const Family kGpt2;

// Reads config.json after the check of its model_type. Settings that would change GPT-2's computation are refused.
Gpt2Config read_gpt2_config(const ConfigReader& reader);
// Writes a configuration that transformers opens as GPT2LMHeadModel.
void write_gpt2_config(const Gpt2Config& config, const std::filesystem::path& folder);

// Passes and fields are those of models/language_model.h.
ModelGraph build_gpt2(const Gpt2Config& config, const BatchShape& shape, const BuildOptions& options);

std::span<const ModelPreset> gpt2_presets();
extern const GgufForm kGpt2Gguf;
// Keys of [model], and the faults of their combinations.
std::span<const ModelKey> gpt2_keys();
std::optional<ModelRemark> gpt2_fault(const ModelConfig& config);
std::vector<ModelRemark> gpt2_doubts(const ModelConfig& config);

}  // namespace plimsoll
