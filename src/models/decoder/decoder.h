// A decoder of pre-normalised blocks: RMS norms, rotary positions, grouped attention and a gated MLP (Touvron et al., "LLaMA",
// 2023). The families llama, mistral, qwen2 and qwen3 are such decoders; each reads its own config.json into this shape.
// Parameters carry the names of a Hugging Face file, matrices its layout ([outputs, inputs]).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/config_json.h"
#include "models/family.h"
#include "models/gguf.h"
#include "ops/gated/gated.h"
#include "ops/rotary/rotary.h"

namespace plimsoll {

struct DecoderConfig {
  std::int64_t layers = 12;
  std::int64_t width = 768;
  std::int64_t heads = 12;
  std::int64_t kv_heads = 0;   // heads of keys and values, a divisor of heads; 0: heads
  std::int64_t head_size = 0;  // even; 0: width / heads
  std::int64_t mlp_width = 2048;
  std::int64_t context = 2048;  // max_position_embeddings; samples may be longer
  std::int64_t vocab = 32000;
  bool tied = false;
  double norm_epsilon = 1e-6;
  bool qkv_bias = false, output_bias = false, mlp_bias = false;
  bool head_norms = false;  // RMS norms of each head of queries and keys
  ops::Activation activation = ops::Activation::silu;
  std::int64_t window = 0;     // keys visible to a query; 0: all
  std::string windowed;        // one letter per layer, full (f) or sliding (s), such as "fsff"; empty: all slide if window > 0
  ops::RotaryAttributes rope;  // without the fields of the graph: head_size, rotated, length
  double attention_dropout = 0;
  std::int64_t padding = -1;  // token whose row gets no gradient from lookups; -1: none
  double initializer_range = 0.02;
  bool byte_vocabulary = false;

  std::int64_t window_of(std::int64_t layer) const;
  // The configuration with a number in place of each zero that stands for a rule.
  DecoderConfig settled() const;

  friend bool operator==(const DecoderConfig&, const DecoderConfig&) = default;
  template <class V>
  void fields(V&& v) const {
    v("layers", layers), v("width", width), v("heads", heads), v("kv_heads", kv_heads), v("head_size", head_size);
    v("mlp_width", mlp_width), v("context", context), v("vocab", vocab), v("tied", tied), v("norm_epsilon", norm_epsilon);
    v("qkv_bias", qkv_bias), v("output_bias", output_bias), v("mlp_bias", mlp_bias), v("head_norms", head_norms);
    v("activation", activation), v("window", window), v("windowed", windowed);
    rope.fields([&](const char* name, const auto& field) { v(name, field); });
    v("attention_dropout", attention_dropout), v("padding", padding), v("initializer_range", initializer_range);
    v("byte_vocabulary", byte_vocabulary);
  }
};

// The GGUF files of a family.
struct DecoderGguf {
  std::string_view architecture;                  // of written files
  bool interleaved = false;                       // files have interleaved rows of queries and keys
  bool window = false;                            // layers may see a window of keys
  bool attention_bias = false, mlp_bias = false;  // config.json has these keys
};

// The family's own part of a decoder.
struct DecoderKind {
  std::string_view kind;          // model_type
  std::string_view architecture;  // the class in transformers
  DecoderConfig (*read)(const ConfigReader&) = nullptr;
  DecoderConfig (*fresh)() = nullptr;  // values before the keys of [model]; null: the defaults above
  DecoderGguf gguf;
};

// Defaults of config.json's keys, from the classes of transformers.
struct DecoderDefaults {
  std::int64_t kv_heads = 0;   // 0: as many as heads
  std::int64_t head_size = 0;  // 0: width / heads
  std::int64_t mlp_width = 11008, context = 2048, vocab = 32000;
};
// Reads all keys but those of biases, norms of heads and windows.
DecoderConfig read_decoder(const ConfigReader& reader, const DecoderDefaults& defaults);
// sliding_window: 0 if null, `absent` if missing.
std::int64_t window_of(const ConfigReader& reader, std::int64_t absent);
// Reads sliding_window, use_sliding_window, max_window_layers and layer_types of Qwen.
void read_qwen_windows(const ConfigReader& reader, DecoderConfig& config);
bool read_flag(const ConfigReader& reader, const char* key, bool fallback);

void write_decoder(const DecoderKind& kind, const DecoderConfig& config, const std::filesystem::path& folder);

ModelGraph build_decoder(const DecoderConfig& config, const BatchShape& shape, const BuildOptions& options);

std::span<const ModelKey> decoder_keys();
std::vector<std::string> decoder_stored(const ModelConfig& config, std::string_view parameter);
bool decoder_ignored(std::string_view stored);
ModelFacts decoder_facts(const ModelConfig& config);
std::string decoder_text(const ModelConfig& config);
std::optional<ModelRemark> decoder_fault(const ModelConfig& config);
ModelConfig decoder_with_vocabulary(const ModelConfig& config, std::int64_t vocab, bool bytes);
ModelConfig decoder_with_positions(const ModelConfig& config, std::int64_t positions);

void decoder_gguf_config(const DecoderKind& kind, const GgufModelKeys& keys, nlohmann::ordered_json& json);
GgufLayout decoder_gguf_layout(const DecoderKind& kind, const GgufModelKeys& keys);
GgufModel decoder_gguf(const DecoderKind& kind, const ModelConfig& config);
// Llama 3's divisors of the angles, one for each pair.
std::vector<float> band_divisors(const ops::RotaryAttributes& rope, std::int64_t pairs);
// The scaling of Llama 3 with these divisors; absent if there is none. `original`: the context before the scaling; 0: unknown.
std::optional<ops::RotaryAttributes> rope_of_divisors(std::span<const float> divisors, double theta, std::int64_t original);

template <const DecoderKind& kKind>
inline constexpr GgufForm kDecoderGguf{
    [](const GgufModelKeys& keys, nlohmann::ordered_json& json) { decoder_gguf_config(kKind, keys, json); },
    [](const GgufModelKeys& keys) { return decoder_gguf_layout(kKind, keys); },
    [](const ModelConfig& config) { return decoder_gguf(kKind, config); }};

template <const DecoderKind& kKind, const Family& kSelf>
constexpr Family make_decoder_family(std::string_view title) {
  return {.kind = kKind.kind,
          .title = title,
          .defaults = [] { return ModelConfig(kSelf, kKind.fresh != nullptr ? kKind.fresh() : DecoderConfig()); },
          .keys = decoder_keys,
          .read = [](const ConfigReader& reader) { return ModelConfig(kSelf, kKind.read(reader)); },
          .write = [](const ModelConfig& config,
                      const std::filesystem::path& folder) { write_decoder(kKind, config.as<DecoderConfig>(), folder); },
          .build = [](const ModelConfig& config, const BatchShape& shape,
                      const BuildOptions& options) { return build_decoder(config.as<DecoderConfig>(), shape, options); },
          .stored = decoder_stored,
          .ignored = decoder_ignored,
          .gguf = &kDecoderGguf<kKind>,
          .facts = decoder_facts,
          .describe = decoder_text,
          .fault = decoder_fault,
          .with_vocabulary = decoder_with_vocabulary,
          .with_positions = decoder_with_positions};
}

}  // namespace plimsoll
