#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>

#include "base/error.h"
#include "models/decoder/decoder.h"
#include "models/gguf.h"

namespace plimsoll {
namespace {

using OrderedJson = nlohmann::ordered_json;
using ops::RotaryScaling;

constexpr GgufNamePair kNames[] = {{"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
constexpr GgufNamePair kBlockNames[] = {
    {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};

GgufLayout layout_of(const DecoderKind& kind, std::int64_t heads, std::int64_t kv_heads) {
  GgufLayout layout{.names = kNames, .block_names = kBlockNames, .blocks = "model.layers."};
  if (kind.gguf.interleaved) layout.query_heads = heads, layout.key_heads = kv_heads;
  return layout;
}

double wavelength(std::size_t pair, std::size_t pairs, double theta) {
  return 2 * std::numbers::pi * std::pow(theta, static_cast<double>(pair) / static_cast<double>(pairs));
}

double divisor_of(double wave, const ops::RotaryAttributes& rope) {
  const double turns = static_cast<double>(rope.original) / wave;
  if (turns < rope.low) return rope.factor;
  if (turns > rope.high) return 1;
  const double smooth = (turns - rope.low) / (rope.high - rope.low);
  return 1 / ((1 - smooth) / rope.factor + smooth);
}

double rounded(double value) { return std::round(value * 1000) / 1000; }

}  // namespace

std::vector<float> band_divisors(const ops::RotaryAttributes& rope, std::int64_t pairs) {
  std::vector<float> divisors(static_cast<std::size_t>(pairs));
  for (std::size_t pair = 0; pair < divisors.size(); ++pair) {
    divisors[pair] = static_cast<float>(divisor_of(wavelength(pair, divisors.size(), rope.theta), rope));
  }
  return divisors;
}

// The divisor of a pair depends on its wavelength:
//   divisor
//   factor |            _______
//          |          /
//        1 | _______/
//          +-------|---|------- wavelength
//             o/high   o/low          o: the original context
// Between the two thresholds its inverse is linear in the inverse of the wavelength. This line gives o / low and high / low. If o
// is unknown, low is 1.
std::optional<ops::RotaryAttributes> rope_of_divisors(std::span<const float> divisors, double theta, std::int64_t original) {
  ops::RotaryAttributes rope;
  rope.theta = theta, rope.low = 1, rope.high = 4, rope.original = original > 0 ? original : 8192;
  for (const float divisor : divisors) rope.factor = std::max(rope.factor, std::stod(fmt::format("{}", divisor)));
  if (!(rope.factor > 1 && std::isfinite(rope.factor))) return {};
  struct Point {
    double inverse_wave, smooth;
  };
  std::vector<Point> between;
  for (std::size_t pair = 0; pair < divisors.size(); ++pair) {
    const double divisor = divisors[pair];
    if (divisor <= 1.001 || divisor >= rope.factor * 0.999) continue;
    between.push_back({1 / wavelength(pair, divisors.size(), theta), (1 / divisor - 1 / rope.factor) / (1 - 1 / rope.factor)});
  }
  if (between.size() > 1) {
    const Point &a = between.front(), &b = between.back();
    const double slope = (a.smooth - b.smooth) / (a.inverse_wave - b.inverse_wave), at_zero = a.smooth - slope * a.inverse_wave;
    if (!(at_zero < 0 && slope > 0)) return {};
    const double ratio = 1 - 1 / at_zero, first = slope * (ratio - 1);  // high / low, original / low
    if (!(ratio > 1 && first >= 2 && first < 1e12)) return {};
    if (original == 0) rope.original = std::llround(first);
    rope.low = rounded(static_cast<double>(rope.original) / first);
    rope.high = rounded(ratio * rope.low);
  }
  for (std::size_t pair = 0; pair < divisors.size(); ++pair) {
    const double expected = divisor_of(wavelength(pair, divisors.size(), theta), rope);
    if (!(std::abs(divisors[pair] - expected) <= 2e-5 * expected)) return {};
  }
  return rope;
}

namespace {

std::vector<float> rope_divisors(const GgufFile& file, std::int64_t pairs) {
  const GgufTensor* tensor = file.find("rope_freqs.weight");
  if (tensor == nullptr) return {};
  if (tensor->shape != Shape{pairs}) {
    throw file.malformed(fmt::format("rope_freqs.weight is {}", to_text(tensor->shape)), to_text(Shape{pairs}));
  }
  std::vector<float> divisors(static_cast<std::size_t>(pairs));
  std::array<std::byte, 1024> staging{};
  file.read_f32(*tensor, 0, divisors, staging);
  return divisors;
}

// Refuses a key that alone makes llama.cpp mix the angles of two contexts. Below 0 the type of scaling decides.
void check_mixture(const GgufModelKeys& keys, bool yarn) {
  const std::string key = keys.prefix() + "rope.scaling.yarn_ext_factor";
  const double usual = yarn ? 1 : 0, value = keys.file().number(key).value_or(usual);
  if (value < 0 || value == usual) return;
  throw keys.file().malformed(fmt::format("{} is {}, which is not supported", key, value),
                              fmt::format("{}, or no such key", usual));
}

// The factor of positions; absent without a key. Files of 2023 have the second key. llama.cpp takes 0 for 1.
std::optional<double> rope_factor(const GgufModelKeys& keys) {
  for (const char* name : {"rope.scaling.factor", "rope.scale_linear"}) {
    const auto value = keys.file().number(keys.prefix() + name);
    if (value) return *value == 0 ? 1 : keys.number(name, 1);
  }
  return {};
}

// Like in llama.cpp, a factor without a type is linear.
OrderedJson rope_scaling(const GgufModelKeys& keys, double theta, std::int64_t head_size, std::int64_t context) {
  const std::string type = keys.text("rope.scaling.type").value_or("linear");
  if (type != "none" && type != "linear" && type != "yarn") {
    throw keys.file().malformed(fmt::format("{}rope.scaling.type is '{}', which is not supported", keys.prefix(), type),
                                "none, linear or yarn");
  }
  const std::optional<double> factor = rope_factor(keys);
  const bool yarn = type == "yarn", linear = type == "linear" && factor && *factor != 1;
  check_mixture(keys, yarn);
  const std::int64_t original = keys.size("rope.scaling.original_context_length").value_or(0);
  const std::vector<float> divisors = rope_divisors(keys.file(), head_size / 2);
  if (std::ranges::any_of(divisors, [](float divisor) { return divisor != 1; })) {
    const auto rope = rope_of_divisors(divisors, theta, original);
    if (yarn || linear || !rope) {
      throw keys.file().malformed("rope_freqs.weight holds other divisors than those of Llama 3",
                                  "the angles of Llama 3, or none");
    }
    return {{"rope_type", "llama3"},
            {"factor", rope->factor},
            {"low_freq_factor", rope->low},
            {"high_freq_factor", rope->high},
            {"original_max_position_embeddings", rope->original}};
  }
  if (linear) return {{"rope_type", "linear"}, {"factor", *factor}};
  if (!yarn) return {};
  OrderedJson json = {{"rope_type", "yarn"},
                      {"factor", factor.value_or(1)},
                      {"original_max_position_embeddings", original > 0 ? original : context}};
  constexpr std::pair<const char*, const char*> kBetas[] = {{"beta_fast", "rope.scaling.yarn_beta_fast"},
                                                            {"beta_slow", "rope.scaling.yarn_beta_slow"}};
  for (const auto& [name, key] : kBetas) {
    if (keys.file().has(keys.prefix() + key)) json[name] = keys.number(key, 1);
  }
  return json;
}

Error refuse(const std::string& what, std::string expected) {
  return config_error("E-EXPORT-MODEL", "gguf", what, std::move(expected));
}

void refuse_what_no_key_says(const DecoderConfig& c, const DecoderKind& kind) {
  if (c.activation != ops::Activation::silu) throw refuse("the activation of its MLPs is not SiLU", "hidden_act silu");
  if (!kind.gguf.window && c.window > 0) {
    throw refuse(fmt::format("some layers see only {} keys", c.window), "attention over all keys, or a Mistral model");
  }
  if (c.head_norms && (c.qkv_bias || c.output_bias)) throw refuse("its attention has biases", "attention_bias false");
  if (c.byte_vocabulary) throw refuse("its tokens are bytes, for which GGUF has no tokenizer", "a model with a tokenizer");
}

void put_rope(const DecoderConfig& c, const std::string& prefix, GgufModel& model) {
  const ops::RotaryAttributes& rope = c.rope;
  model.keys.put_number(prefix + "rope.freq_base", rope.theta);
  model.keys.put_whole(prefix + "rope.dimension_count", c.head_size);
  switch (rope.scaling) {
    case RotaryScaling::none: return;
    case RotaryScaling::linear:
      model.keys.put(prefix + "rope.scaling.type", "linear");
      model.keys.put_number(prefix + "rope.scaling.factor", rope.factor);
      return;
    case RotaryScaling::by_bands:
      model.rope_divisors = band_divisors(rope, c.head_size / 2);
      model.keys.put_whole(prefix + "rope.scaling.original_context_length", rope.original);
      return;
    case RotaryScaling::yarn: {
      const ops::RotaryAttributes usual;
      if (!rope.truncate || rope.attention_factor > 0 || rope.mscale != 0 || rope.mscale_all_dim != 0) {
        throw refuse("its YaRN has settings in addition to the factor", "YaRN of its usual settings");
      }
      model.keys.put(prefix + "rope.scaling.type", "yarn");
      model.keys.put_number(prefix + "rope.scaling.factor", rope.factor);
      model.keys.put_whole(prefix + "rope.scaling.original_context_length", rope.original);
      if (rope.beta_fast != usual.beta_fast) model.keys.put_number(prefix + "rope.scaling.yarn_beta_fast", rope.beta_fast);
      if (rope.beta_slow != usual.beta_slow) model.keys.put_number(prefix + "rope.scaling.yarn_beta_slow", rope.beta_slow);
      return;
    }
    case RotaryScaling::dynamic:
    case RotaryScaling::longrope:
      throw refuse(fmt::format("its rope_type is {}, which GGUF files do not have", attribute_text(rope.scaling)),
                   "default, linear, llama3 or yarn");
  }
}

}  // namespace

GgufLayout decoder_gguf_layout(const DecoderKind& kind, const GgufModelKeys& keys) {
  const std::int64_t heads = keys.required("attention.head_count");
  return layout_of(kind, heads, keys.size("attention.head_count_kv").value_or(heads));
}

void decoder_gguf_config(const DecoderKind& kind, const GgufModelKeys& keys, OrderedJson& json) {
  keys.refuse_unknown({"attention.layer_norm_rms_epsilon", "attention.sliding_window", "rope.freq_base", "rope.dimension_count",
                       "rope.scale_linear", "rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length",
                       "rope.scaling.finetuned", "rope.scaling.yarn_ext_factor", "rope.scaling.yarn_beta_fast",
                       "rope.scaling.yarn_beta_slow"});
  const GgufFile& file = keys.file();
  const std::int64_t width = keys.required("embedding_length"), heads = keys.required("attention.head_count");
  const std::int64_t head_size = keys.size("attention.key_length").value_or(std::max<std::int64_t>(1, width / heads));
  for (const char* name : {"attention.value_length", "rope.dimension_count"}) {
    const std::int64_t size = keys.size(name).value_or(head_size);
    if (size == head_size) continue;
    throw file.malformed(fmt::format("{}{} is {}, which is not supported", keys.prefix(), name, size),
                         fmt::format("{}, the size of a head", head_size));
  }
  const std::int64_t window = keys.size("attention.sliding_window").value_or(0);
  if (window > 0 && !kind.gguf.window) {
    throw file.malformed(fmt::format("{}attention.sliding_window is {}, which is not supported", keys.prefix(), window),
                         "no such key");
  }
  // A file of a Llama with a window becomes a Mistral, because Llama has none in transformers.
  const bool slides = window > 0 || kind.kind == "mistral";
  const std::int64_t context = keys.required("context_length");
  const double theta = keys.number("rope.freq_base", 10000);
  json = {{"architectures", {slides ? "MistralForCausalLM" : kind.architecture}},
          {"model_type", slides ? "mistral" : kind.kind},
          {"num_hidden_layers", keys.blocks()},
          {"hidden_size", width},
          {"num_attention_heads", heads},
          {"num_key_value_heads", keys.size("attention.head_count_kv").value_or(heads)},
          {"head_dim", head_size},
          {"intermediate_size", keys.required("feed_forward_length")},
          {"max_position_embeddings", context},
          {"vocab_size", gguf_vocabulary(file)},
          {"hidden_act", "silu"},
          {"rms_norm_eps", keys.number("attention.layer_norm_rms_epsilon", 1e-6)},
          {"rope_theta", theta},
          {"rope_scaling", rope_scaling(keys, theta, head_size, context)},
          {"tie_word_embeddings", file.find("output.weight") == nullptr}};
  if (kind.gguf.attention_bias && !slides) json["attention_bias"] = file.find("blk.0.attn_q.bias") != nullptr;
  if (kind.gguf.mlp_bias && !slides) json["mlp_bias"] = file.find("blk.0.ffn_up.bias") != nullptr;
  if (slides) json["sliding_window"] = window > 0 ? OrderedJson(window) : OrderedJson();
}

GgufModel decoder_gguf(const DecoderKind& kind, const ModelConfig& config) {
  const DecoderConfig c = config.as<DecoderConfig>().settled();
  refuse_what_no_key_says(c, kind);
  GgufModel model{.architecture = std::string(kind.gguf.architecture),
                  .keys = {},
                  .layout = layout_of(kind, c.heads, c.kv_heads),
                  .rope_divisors = {}};
  const std::string prefix = model.architecture + ".";
  GgufKeys& keys = model.keys;
  keys.put_whole(prefix + "block_count", c.layers);
  keys.put_whole(prefix + "context_length", c.context);
  keys.put_whole(prefix + "embedding_length", c.width);
  keys.put_whole(prefix + "feed_forward_length", c.mlp_width);
  keys.put_whole(prefix + "attention.head_count", c.heads);
  keys.put_whole(prefix + "attention.head_count_kv", c.kv_heads);
  keys.put_number(prefix + "attention.layer_norm_rms_epsilon", c.norm_epsilon);
  keys.put_whole(prefix + "attention.key_length", c.head_size);
  keys.put_whole(prefix + "attention.value_length", c.head_size);
  keys.put_whole(prefix + "vocab_size", c.vocab);
  if (c.window > 0) keys.put_whole(prefix + "attention.sliding_window", c.window);
  put_rope(c, prefix, model);
  return model;
}

}  // namespace plimsoll
