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

// A key that is computed with one value alone: that of files without it.
struct NeutralKey {
  std::string_view name;
  double value;
};
constexpr NeutralKey kNeutral[] = {{"expert_count", 0},
                                   {"expert_used_count", 0},
                                   {"expert_shared_count", 0},
                                   {"expert_feed_forward_length", 0},
                                   {"leading_dense_block_count", 0},
                                   {"nextn_predict_layers", 0},
                                   {"logit_scale", 1},
                                   {"residual_scale", 1},
                                   {"embedding_scale", 1},
                                   {"attention.scale", 0},
                                   {"attention.clamp_kqv", 0},
                                   {"attention.max_alibi_bias", 0},
                                   {"attn_logit_softcapping", 0},
                                   {"final_logit_softcapping", 0},
                                   {"rope.scaling.attn_factor", 1},
                                   {"rope.scaling.yarn_attn_factor", 1},
                                   {"rope.scaling.yarn_log_multiplier", 0}};
// Keys that are computed, or that change no logits: the size of the vocabulary is that of the table, how states are pooled comes
// after the last layer, and the layout of the first files is that of all.
constexpr std::string_view kOfAll[] = {"block_count",          "context_length",
                                       "embedding_length",     "feed_forward_length",
                                       "attention.head_count", "attention.head_count_kv",
                                       "attention.key_length", "attention.value_length",
                                       "attention.causal",     "attention.layer_norm_epsilon",
                                       "vocab_size",           "pooling_type",
                                       "tensor_data_layout"};
constexpr std::string_view kOfDecoders[] = {"attention.layer_norm_rms_epsilon",
                                            "attention.sliding_window",
                                            "rope.freq_base",
                                            "rope.dimension_count",
                                            "rope.scale_linear",
                                            "rope.scaling.type",
                                            "rope.scaling.factor",
                                            "rope.scaling.original_context_length",
                                            "rope.scaling.finetuned",
                                            "rope.scaling.yarn_ext_factor",
                                            "rope.scaling.yarn_beta_fast",
                                            "rope.scaling.yarn_beta_slow"};

bool is_known(std::string_view key, std::string_view architecture) {
  return std::ranges::find(kOfAll, key) != std::end(kOfAll) ||
         std::ranges::find(kNeutral, key, &NeutralKey::name) != std::end(kNeutral) ||
         (architecture != "gpt2" && std::ranges::find(kOfDecoders, key) != std::end(kOfDecoders));
}

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

  // Each block has a tensor at least.
  std::int64_t blocks() const {
    const std::int64_t count = required("block_count");
    if (count <= std::ssize(file_.tensors())) return count;
    throw file_.malformed(fmt::format("{}block_count is {}, and the file has {} tensors", prefix_, count, file_.tensors().size()),
                          "a tensor for each block, at least");
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

  // Stretches positions; nothing where no key says it. Files of 2023 have the older name; llama.cpp takes 0 for 1.
  std::optional<double> rope_factor() const {
    for (const char* name : {"rope.scaling.factor", "rope.scale_linear"}) {
      const auto value = file_.number(prefix_ + name);
      if (value) return *value == 0 ? 1 : number(name, 1);
    }
    return {};
  }

  const std::string& prefix() const { return prefix_; }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

void refuse_what_is_not_computed(const GgufFile& file, const Keys& keys, std::string_view architecture) {
  for (const std::string_view key : file.keys_under(keys.prefix())) {
    const std::string_view name = key.substr(keys.prefix().size());
    if (is_known(name, architecture)) continue;
    throw file.malformed(fmt::format("there is a key {}, which is not known", key),
                         fmt::format("keys of {} models that are computed", architecture));
  }
  for (const auto& [name, value] : kNeutral) keys.demand(name, value);
  if (!file.flag(keys.prefix() + "attention.causal").value_or(true)) {
    throw file.malformed(fmt::format("{}attention.causal is false, which is not computed", keys.prefix()),
                         "true, or no such key: a token sees those before it");
  }
  const std::int64_t parts = file.whole("split.count").value_or(1);
  if (parts > 1) {
    throw file.malformed(fmt::format("it is one of {} parts of a model", parts),
                         "one file, which llama-gguf-split merges from the parts");
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

// llama.cpp mixes the angles of two contexts by this key alone; below 0, the type decides.
void check_mixture(const GgufFile& file, const Keys& keys, bool yarn) {
  const std::string key = keys.prefix() + "rope.scaling.yarn_ext_factor";
  const double usual = yarn ? 1 : 0, value = file.number(key).value_or(usual);
  if (value < 0 || value == usual) return;
  throw file.malformed(fmt::format("{} is {}, which is not computed", key, value), fmt::format("{}, or no such key", usual));
}

// As llama.cpp reads the keys: a factor without a type is linear.
OrderedJson rope_scaling(const GgufFile& file, const Keys& keys, double theta, std::int64_t head_size, std::int64_t context) {
  const std::string type = keys.text("rope.scaling.type").value_or("linear");
  if (type != "none" && type != "linear" && type != "yarn") {
    throw file.malformed(fmt::format("{}rope.scaling.type is '{}', which is not computed", keys.prefix(), type),
                         "none, linear or yarn");
  }
  const std::optional<double> factor = keys.rope_factor();
  const bool yarn = type == "yarn", linear = type == "linear" && factor && *factor != 1;
  check_mixture(file, keys, yarn);
  const std::int64_t original = keys.size("rope.scaling.original_context_length").value_or(0);
  const std::vector<float> divisors = rope_divisors(file, head_size / 2);
  if (std::ranges::any_of(divisors, [](float divisor) { return divisor != 1; })) {
    const auto rope = llama3_rope_of(divisors, theta, original);
    if (yarn || linear || !rope) {
      throw file.malformed("rope_freqs.weight holds other divisors than those of Llama 3", "the angles of Llama 3, or none");
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
    if (file.has(keys.prefix() + key)) json[name] = keys.number(key, 1);
  }
  return json;
}

OrderedJson gpt2_config(const GgufFile& file, const Keys& keys) {
  const std::int64_t vocab = table_of(file).shape[0];
  const std::int64_t heads = keys.required("attention.head_count"), width = keys.required("embedding_length");
  keys.demand("attention.head_count_kv", static_cast<double>(heads));
  for (const char* name : {"attention.key_length", "attention.value_length"}) {
    keys.demand(name, static_cast<double>(width / heads));
  }
  OrderedJson json = {{"architectures", {"GPT2LMHeadModel"}},
                      {"model_type", "gpt2"},
                      {"activation_function", "gelu_new"},
                      {"n_layer", keys.blocks()},
                      {"n_embd", width},
                      {"n_head", heads},
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
                      {"num_hidden_layers", keys.blocks()},
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
  refuse_what_is_not_computed(file, keys, architecture);
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
