#include "formats/gguf/gguf_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <utility>

namespace plimsoll {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::array<std::string_view, 5> kArchitectures{"llama", "mistral", "qwen2", "qwen3", "gpt2"};
constexpr std::int64_t kMostSize = std::int64_t{1} << 30;

// The keys of the file's own architecture.
class Keys {
 public:
  Keys(const GgufFile& file, std::string architecture) : file_(file), prefix_(std::move(architecture) + ".") {}

  std::optional<std::int64_t> size(std::string_view name) const {
    const std::string key = prefix_ + std::string(name);
    const auto values = file_.wholes(key, 4096);
    if (!values) return {};
    if (std::ranges::any_of(*values, [&](std::int64_t value) { return value != values->front(); })) {
      throw file_.malformed(fmt::format("{} differs between layers", key), "the same number for each layer");
    }
    if (values->front() < 1 || values->front() > kMostSize) {
      throw file_.malformed(fmt::format("{} is {}", key, values->front()), fmt::format("a number from 1 to {}", kMostSize));
    }
    return values->front();
  }

  std::int64_t required(std::string_view name) const {
    if (const auto value = size(name)) return *value;
    throw file_.malformed(fmt::format("there is no key {}{}", prefix_, name), "the shape of the model");
  }

  double number(std::string_view name, double fallback) const {
    const std::string key = prefix_ + std::string(name);
    const double value = file_.number(key).value_or(fallback);
    if (!(value > 0 && std::isfinite(value))) throw file_.malformed(fmt::format("{} is {}", key, value), "a number above 0");
    return value;
  }

  std::optional<std::string> text(std::string_view name) const { return file_.text(prefix_ + std::string(name)); }

  // What would change the computation.
  void demand(std::string_view name, double neutral) const {
    const std::string key = prefix_ + std::string(name);
    const auto value = file_.number(key);
    if (!value || *value == neutral) return;
    throw file_.malformed(fmt::format("{} is {}, which is not computed", key, *value),
                          fmt::format("{}, or no such key", neutral));
  }

  const std::string& prefix() const { return prefix_; }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

void refuse_what_is_not_computed(const GgufFile& file, const Keys& keys) {
  keys.demand("expert_count", 0);
  for (const char* name : {"logit_scale", "residual_scale", "embedding_scale", "attention.scale"}) keys.demand(name, 1);
  for (const char* name :
       {"attention.clamp_kqv", "attention.max_alibi_bias", "attn_logit_softcapping", "final_logit_softcapping"}) {
    keys.demand(name, 0);
  }
  const std::int64_t parts = file.whole("split.count").value_or(1);
  if (parts > 1) {
    throw file.malformed(fmt::format("it is one of {} parts of a model", parts),
                         "one file: llama-gguf-split --merge makes it of the parts");
  }
}

const GgufTensor& table_of(const GgufFile& file) {
  const GgufTensor* table = file.find("token_embd.weight");
  if (table == nullptr || table->shape.rank() != 2)
    throw file.malformed("there is no matrix token_embd.weight", "a model of tokens");
  return *table;
}

void put_tokens(const GgufFile& file, std::int64_t vocab, OrderedJson& json) {
  constexpr std::pair<const char*, const char*> kTokens[] = {
      {"bos_token_id", "tokenizer.ggml.bos_token_id"},
      {"eos_token_id", "tokenizer.ggml.eos_token_id"},
      {"pad_token_id", "tokenizer.ggml.padding_token_id"},
  };
  for (const auto& [name, key] : kTokens) {
    const auto token = file.whole(key);
    if (token && (*token < 0 || *token >= vocab)) {
      throw file.malformed(fmt::format("{} is {}", key, *token), fmt::format("a token from 0 to {}", vocab - 1));
    }
    json[name] = token ? OrderedJson(*token) : OrderedJson();
  }
}

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

OrderedJson rope_scaling(const GgufFile& file, const Keys& keys, double theta, std::int64_t head_size, std::int64_t context) {
  const std::string type = keys.text("rope.scaling.type").value_or("none");
  const std::int64_t original = keys.size("rope.scaling.original_context_length").value_or(0);
  const std::vector<float> divisors = rope_divisors(file, head_size / 2);
  if (std::ranges::any_of(divisors, [](float divisor) { return divisor != 1; })) {
    const auto rope = llama3_rope_of(divisors, theta, original);
    if (type != "none" || !rope) {
      throw file.malformed("rope_freqs.weight holds other divisors than those of Llama 3", "the angles of Llama 3, or none");
    }
    return {{"rope_type", "llama3"},
            {"factor", rope->factor},
            {"low_freq_factor", rope->low},
            {"high_freq_factor", rope->high},
            {"original_max_position_embeddings", rope->original}};
  }
  if (type == "none") return {};
  if (type == "linear") return {{"rope_type", "linear"}, {"factor", keys.number("rope.scaling.factor", 1)}};
  if (type == "yarn") {
    keys.demand("rope.scaling.attn_factor", 1);
    keys.demand("rope.scaling.yarn_log_multiplier", 0);
    return {{"rope_type", "yarn"},
            {"factor", keys.number("rope.scaling.factor", 1)},
            {"original_max_position_embeddings", original > 0 ? original : context}};
  }
  throw file.malformed(fmt::format("{}rope.scaling.type is '{}', which is not computed", keys.prefix(), type),
                       "none, linear or yarn");
}

OrderedJson gpt2_config(const GgufFile& file, const Keys& keys) {
  const std::int64_t vocab = table_of(file).shape[0];
  OrderedJson json = {{"architectures", {"GPT2LMHeadModel"}},
                      {"model_type", "gpt2"},
                      {"activation_function", "gelu_new"},
                      {"n_layer", keys.required("block_count")},
                      {"n_embd", keys.required("embedding_length")},
                      {"n_head", keys.required("attention.head_count")},
                      {"n_inner", keys.required("feed_forward_length")},
                      {"n_positions", keys.required("context_length")},
                      {"n_ctx", keys.required("context_length")},
                      {"vocab_size", vocab},
                      {"layer_norm_epsilon", keys.number("attention.layer_norm_epsilon", 1e-5)},
                      {"tie_word_embeddings", file.find("output.weight") == nullptr}};
  put_tokens(file, vocab, json);
  return json;
}

OrderedJson decoder_config(const GgufFile& file, const Keys& keys, const std::string& architecture) {
  const std::int64_t width = keys.required("embedding_length"), heads = keys.required("attention.head_count");
  const std::int64_t head_size = keys.size("attention.key_length").value_or(std::max<std::int64_t>(1, width / heads));
  for (const char* name : {"attention.value_length", "rope.dimension_count"}) {
    const std::int64_t size = keys.size(name).value_or(head_size);
    if (size == head_size) continue;
    throw file.malformed(fmt::format("{}{} is {}, which is not computed", keys.prefix(), name, size),
                         fmt::format("{}, the size of a head", head_size));
  }
  const std::int64_t window = keys.size("attention.sliding_window").value_or(0);
  if (window > 0 && architecture != "llama" && architecture != "mistral") {
    throw file.malformed(fmt::format("{}attention.sliding_window is {}, which is not computed", keys.prefix(), window),
                         "no such key");
  }
  const bool slides = window > 0 || architecture == "mistral";
  const std::string kind = slides ? "mistral" : architecture;
  constexpr std::pair<std::string_view, const char*> kClasses[] = {{"llama", "LlamaForCausalLM"},
                                                                   {"mistral", "MistralForCausalLM"},
                                                                   {"qwen2", "Qwen2ForCausalLM"},
                                                                   {"qwen3", "Qwen3ForCausalLM"}};
  const auto* found = std::ranges::find(kClasses, kind, &std::pair<std::string_view, const char*>::first);
  const std::int64_t context = keys.required("context_length"), vocab = table_of(file).shape[0];
  const double theta = keys.number("rope.freq_base", 10000);
  OrderedJson json = {{"architectures", {found->second}},
                      {"model_type", kind},
                      {"num_hidden_layers", keys.required("block_count")},
                      {"hidden_size", width},
                      {"num_attention_heads", heads},
                      {"num_key_value_heads", keys.size("attention.head_count_kv").value_or(heads)},
                      {"head_dim", head_size},
                      {"intermediate_size", keys.required("feed_forward_length")},
                      {"max_position_embeddings", context},
                      {"vocab_size", vocab},
                      {"hidden_act", "silu"},
                      {"rms_norm_eps", keys.number("attention.layer_norm_rms_epsilon", 1e-6)},
                      {"rope_theta", theta},
                      {"rope_scaling", rope_scaling(file, keys, theta, head_size, context)},
                      {"tie_word_embeddings", file.find("output.weight") == nullptr}};
  if (kind == "llama" || kind == "qwen3") json["attention_bias"] = file.find("blk.0.attn_q.bias") != nullptr;
  if (kind == "llama") json["mlp_bias"] = file.find("blk.0.ffn_up.bias") != nullptr;
  if (kind == "mistral") json["sliding_window"] = window > 0 ? OrderedJson(window) : OrderedJson();
  put_tokens(file, vocab, json);
  return json;
}

double wavelength(std::size_t pair, std::size_t pairs, double theta) {
  return 2 * std::numbers::pi * std::pow(theta, static_cast<double>(pair) / static_cast<double>(pairs));
}

double divisor_of(double wave, const Llama3Rope& rope) {
  const double turns = static_cast<double>(rope.original) / wave;
  if (turns < rope.low) return rope.factor;
  if (turns > rope.high) return 1;
  const double smooth = (turns - rope.low) / (rope.high - rope.low);
  return 1 / ((1 - smooth) / rope.factor + smooth);
}

double rounded(double value) { return std::round(value * 1000) / 1000; }

}  // namespace

std::vector<float> llama3_divisors(const Llama3Rope& rope, double theta, std::int64_t pairs) {
  std::vector<float> divisors(static_cast<std::size_t>(pairs));
  for (std::size_t pair = 0; pair < divisors.size(); ++pair) {
    divisors[pair] = static_cast<float>(divisor_of(wavelength(pair, divisors.size(), theta), rope));
  }
  return divisors;
}

// Between the two thresholds, the inverse of a divisor is a straight line over the inverse of the wavelength. The line tells
// original / low and high / low; without the original context, low is 1.
std::optional<Llama3Rope> llama3_rope_of(std::span<const float> divisors, double theta, std::int64_t original) {
  Llama3Rope rope{.factor = 0, .low = 1, .high = 4, .original = original > 0 ? original : 8192};
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

std::string gguf_architecture(const GgufFile& file) {
  const auto architecture = file.text("general.architecture");
  if (!architecture) throw file.malformed("there is no key general.architecture", "a model");
  if (std::ranges::find(kArchitectures, *architecture) == kArchitectures.end()) {
    throw file.malformed(fmt::format("its architecture is '{}', which is no kind of model that Plimsoll has", *architecture),
                         "llama, mistral, qwen2, qwen3 or gpt2");
  }
  return *architecture;
}

GgufHeads gguf_heads(const GgufFile& file, const std::string& architecture) {
  const Keys keys(file, architecture);
  const std::int64_t queries = keys.required("attention.head_count");
  return {queries, keys.size("attention.head_count_kv").value_or(queries)};
}

OrderedJson gguf_config(const GgufFile& file) {
  const std::string architecture = gguf_architecture(file);
  const Keys keys(file, architecture);
  refuse_what_is_not_computed(file, keys);
  return architecture == "gpt2" ? gpt2_config(file, keys) : decoder_config(file, keys, architecture);
}

OrderedJson gguf_generation_config(const GgufFile& file) {
  OrderedJson json = OrderedJson::object();
  put_tokens(file, table_of(file).shape[0], json);
  const auto turn = file.whole("tokenizer.ggml.eot_token_id");
  if (turn && *turn >= 0 && *turn < table_of(file).shape[0] && json["eos_token_id"] != OrderedJson(*turn)) {
    json["eos_token_id"] = json["eos_token_id"].is_null() ? OrderedJson(*turn) : OrderedJson{json["eos_token_id"], *turn};
  }
  return json;
}

}  // namespace plimsoll
