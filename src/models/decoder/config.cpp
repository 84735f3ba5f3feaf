#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/decoder/decoder.h"
#include "models/shared_keys.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;
using ops::Activation;
using ops::RotaryScaling;

bool has(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && !found->is_null();
}

// Files of transformers 4 omit defaults of the class.
std::int64_t count_or(const ConfigReader& reader, const char* key, std::int64_t fallback, std::int64_t limit) {
  return has(reader.json(), key) ? reader.count(key, limit) : fallback;
}

Activation read_activation(const ConfigReader& reader) {
  const Json value = reader.json().value("hidden_act", Json("silu"));
  if (value == "silu" || value == "swish") return Activation::silu;
  if (value == "gelu_new" || value == "gelu_pytorch_tanh") return Activation::gelu_tanh;
  if (value == "gelu") return Activation::gelu_erf;
  throw reader.refuse(fmt::format("hidden_act is {}", ConfigReader::shown(value)),
                      R"(one of "silu", "gelu", "gelu_new", "gelu_pytorch_tanh")");
}

// Values of rope_type.
constexpr std::pair<const char*, RotaryScaling> kScalings[] = {
    {"default", RotaryScaling::none},    {"linear", RotaryScaling::linear}, {"dynamic", RotaryScaling::dynamic},
    {"llama3", RotaryScaling::by_bands}, {"yarn", RotaryScaling::yarn},     {"longrope", RotaryScaling::longrope}};

// Keys of the rotary embedding: a dictionary rope_parameters (transformers 5), or rope_scaling and keys of the file (4).
class RopeReader {
 public:
  explicit RopeReader(const ConfigReader& reader) : reader_(reader) {
    for (const char* key : {"rope_parameters", "rope_scaling"}) {
      if (!has(reader.json(), key) || reader.json()[key] == Json::object()) continue;
      rope_ = reader.json()[key];
      where_ = key;
      if (!rope_.is_object()) throw reader.refuse(fmt::format("{} is {}", key, ConfigReader::shown(rope_)), "an object");
    }
  }

  void read(DecoderConfig& config) const {
    ops::RotaryAttributes& rope = config.rope;
    rope.theta = number("rope_theta", 1e4, 1e-3, 1e12);
    if (number("partial_rotary_factor", 1, 0, 1 + 1e-12) != 1) {
      throw refuse("partial_rotary_factor is not 1", "1; transformers ignores this key for these models");
    }
    rope.scaling = scaling();
    const bool two_contexts =
        rope.scaling == RotaryScaling::by_bands || rope.scaling == RotaryScaling::yarn || rope.scaling == RotaryScaling::longrope;
    if (two_contexts) rope.original = original(config.context);
    const bool by_ratio = rope.scaling == RotaryScaling::longrope;
    rope.factor = rope.scaling == RotaryScaling::none || by_ratio ? within("factor", 0, 1e-6, 1e6) : needed("factor");
    if (rope.scaling == RotaryScaling::none) rope.factor = 0;
    if (rope.scaling == RotaryScaling::by_bands) read_bands(rope);
    if (rope.scaling == RotaryScaling::yarn) read_yarn(rope);
    if (rope.scaling == RotaryScaling::longrope) read_longrope(config);
    if (two_contexts && rope.original < 2) throw refuse("original_max_position_embeddings is 1", "2 or more");
  }

 private:
  Error refuse(const std::string& what, std::string expected) const {
    return reader_.refuse(where_.empty() ? what : where_ + ": " + what, std::move(expected));
  }

  const Json* find(const char* key) const {
    const auto found = rope_.find(key);
    return found == rope_.end() || found->is_null() ? nullptr : &*found;
  }

  // A number of the dictionary, between `low` and `high`.
  double within(const char* key, double fallback, double low, double high) const {
    const Json* found = find(key);
    if (found == nullptr) return fallback;
    const double value = found->is_number() ? found->get<double>() : high;
    if (value >= low && value < high) return value;
    throw refuse(fmt::format("{} is {}", key, ConfigReader::shown(*found)),
                 fmt::format("a number from {} to below {}", low, high));
  }

  double needed(const char* key) const {
    if (find(key) == nullptr) throw refuse(fmt::format("{} is missing", key), "a number above 0");
    return within(key, 0, 1e-6, 1e6);
  }

  // A number of the dictionary, else of the file.
  double number(const char* key, double fallback, double low, double high) const {
    return find(key) != nullptr ? within(key, fallback, low, high) : reader_.number(key, fallback, low, high);
  }

  RotaryScaling scaling() const {
    const Json* found = find("rope_type") != nullptr ? find("rope_type") : find("type");
    if (found == nullptr) {
      if (rope_.empty() || !has(rope_, "factor")) return RotaryScaling::none;
      throw refuse("rope_type is missing", "one of default, linear, dynamic, llama3, yarn, longrope");
    }
    for (const auto& [name, kind] : kScalings) {
      if (*found == name) return kind;
    }
    throw refuse(fmt::format("rope_type is {}", ConfigReader::shown(*found)),
                 "one of default, linear, dynamic, llama3, yarn, longrope");
  }

  // A key of the file takes precedence over the dictionary.
  std::int64_t original(std::int64_t context) const {
    constexpr const char* kKey = "original_max_position_embeddings";
    if (has(reader_.json(), kKey)) return reader_.count(kKey, kMaxPositions);
    const double value = within(kKey, static_cast<double>(context), 1, kMaxPositions);
    if (value != static_cast<double>(static_cast<std::int64_t>(value)))
      throw refuse(fmt::format("{} is {}", kKey, value), "a whole number");
    return static_cast<std::int64_t>(value);
  }

  void read_bands(ops::RotaryAttributes& rope) const {
    rope.low = needed("low_freq_factor"), rope.high = needed("high_freq_factor");
    if (rope.low <= rope.high) return;
    throw refuse(fmt::format("low_freq_factor is {} and high_freq_factor is {}", rope.low, rope.high), "the lower one first");
  }

  void read_yarn(ops::RotaryAttributes& rope) const {
    rope.beta_fast = within("beta_fast", 32, 1e-6, 1e6);
    rope.beta_slow = within("beta_slow", 1, 1e-6, 1e6);
    rope.attention_factor = within("attention_factor", 0, 1e-6, 1e6);
    rope.mscale = within("mscale", 0, 0, 1e6);
    rope.mscale_all_dim = within("mscale_all_dim", 0, 0, 1e6);
    const Json* truncate = find("truncate");
    if (truncate != nullptr && !truncate->is_boolean()) {
      throw refuse(fmt::format("truncate is {}", ConfigReader::shown(*truncate)), "true or false");
    }
    rope.truncate = truncate == nullptr || truncate->get<bool>();
  }

  std::vector<double> factors(const char* key, std::int64_t pairs) const {
    const Json* found = find(key);
    const bool fits = found != nullptr && found->is_array() && std::ssize(*found) == pairs &&
                      std::ranges::all_of(*found, [](const Json& each) { return each.is_number() && each.get<double>() > 0; });
    if (!fits)
      throw refuse(fmt::format("{} is no list of {} positive numbers", key, pairs), "one factor for each pair of a head");
    return found->get<std::vector<double>>();
  }

  void read_longrope(DecoderConfig& config) const {
    ops::RotaryAttributes& rope = config.rope;
    const std::int64_t pairs = config.head_size / 2;
    rope.attention_factor = within("attention_factor", 0, 1e-6, 1e6);
    rope.short_factor = factors("short_factor", pairs);
    rope.long_factor = factors("long_factor", pairs);
  }

  const ConfigReader& reader_;
  Json rope_ = Json::object();
  std::string where_;
};

// Lookups do not train the row of "pad_token_id".
std::int64_t read_padding(const ConfigReader& reader, std::int64_t vocab) {
  if (!has(reader.json(), "pad_token_id")) return -1;
  const Json& value = reader.json()["pad_token_id"];
  if (value == -1) return vocab - 1;  // PyTorch counts from the end
  if (value.is_number_integer() && value >= 0 && value < vocab) return value.get<std::int64_t>();
  throw reader.refuse(fmt::format("pad_token_id is {}", ConfigReader::shown(value)),
                      fmt::format("null or a token from 0 to {}", vocab - 1));
}

}  // namespace

bool read_flag(const ConfigReader& reader, const char* key, bool fallback) {
  if (!has(reader.json(), key)) return fallback;
  const Json& value = reader.json()[key];
  if (!value.is_boolean()) throw reader.refuse(fmt::format("{} is {}", key, ConfigReader::shown(value)), "true or false");
  return value.get<bool>();
}

DecoderConfig read_decoder(const ConfigReader& reader, const DecoderDefaults& defaults) {
  DecoderConfig c;
  c.layers = count_or(reader, "num_hidden_layers", 32, kMaxLayers);
  c.width = count_or(reader, "hidden_size", 4096, kMaxWidth);
  c.heads = count_or(reader, "num_attention_heads", 32, kMaxHeads);
  // null means the number of heads. An absent key has a separate default.
  const bool named = reader.json().contains("num_key_value_heads");
  c.kv_heads = count_or(reader, "num_key_value_heads", named || defaults.kv_heads == 0 ? c.heads : defaults.kv_heads, kMaxHeads);
  if (c.heads % c.kv_heads != 0) {
    throw reader.refuse(fmt::format("num_attention_heads is {} and num_key_value_heads is {}", c.heads, c.kv_heads),
                        "a number of heads that is a multiple of that of keys and values");
  }
  const bool given = has(reader.json(), "head_dim");
  if (!given && defaults.head_size == 0 && c.width % c.heads != 0) {
    throw reader.refuse(fmt::format("hidden_size is {} and num_attention_heads is {}", c.width, c.heads),
                        "heads that divide the width, or head_dim");
  }
  const std::int64_t head_size =
      defaults.head_size > 0 && !reader.json().contains("head_dim") ? defaults.head_size : c.width / c.heads;
  c.head_size = count_or(reader, "head_dim", head_size, kMaxWidth);
  if (c.head_size % 2 != 0) throw reader.refuse(fmt::format("the size of a head is {}", c.head_size), "an even number");
  c.mlp_width = count_or(reader, "intermediate_size", defaults.mlp_width, kMaxWidth);
  c.context = count_or(reader, "max_position_embeddings", defaults.context, kMaxPositions);
  c.vocab = count_or(reader, "vocab_size", defaults.vocab, kMaxVocab);
  c.tied = read_flag(reader, "tie_word_embeddings", false);
  c.norm_epsilon = reader.number("rms_norm_eps", 1e-6, 1e-12, 1);
  c.activation = read_activation(reader);
  RopeReader(reader).read(c);
  c.attention_dropout = reader.number("attention_dropout", 0, 0, 1);
  c.padding = read_padding(reader, c.vocab);
  c.initializer_range = reader.number("initializer_range", 0.02, 0, 1e3);
  reader.demand("plimsoll_tokenizer", {"bytes"});
  c.byte_vocabulary = reader.json().value("plimsoll_tokenizer", Json()) == Json("bytes");
  read_quantization(reader);
  reader.demand("add_cross_attention", {false});
  reader.demand("is_decoder", {true, false});
  reader.demand("is_causal", {true});
  return c;
}

std::int64_t window_of(const ConfigReader& reader, std::int64_t absent) {
  if (!reader.json().contains("sliding_window")) return absent;
  return has(reader.json(), "sliding_window") ? reader.count("sliding_window", kMaxPositions) : 0;
}

void read_qwen_windows(const ConfigReader& reader, DecoderConfig& config) {
  const Json& json = reader.json();
  config.window = read_flag(reader, "use_sliding_window", false) ? window_of(reader, 4096) : 0;
  if (config.window == 0) return;
  if (has(json, "layer_types")) {
    const Json& types = json["layer_types"];
    if (!types.is_array() || std::ssize(types) != config.layers) {
      throw reader.refuse(fmt::format("layer_types is no list of {} kinds", config.layers), "one kind for each layer");
    }
    for (const Json& type : types) {
      if (type != "full_attention" && type != "sliding_attention") {
        throw reader.refuse(fmt::format("layer_types holds {}", ConfigReader::shown(type)),
                            "full_attention or sliding_attention");
      }
      config.windowed += type == "full_attention" ? 'f' : 's';
    }
  } else {
    const Json first_json = json.value("max_window_layers", Json(28));
    const std::int64_t first = first_json == 0 ? 0 : count_or(reader, "max_window_layers", 28, kMaxLayers);
    for (std::int64_t i = 0; i < config.layers; ++i) config.windowed += i < first ? 'f' : 's';
  }
  if (config.windowed.find('s') == std::string::npos) config.window = 0, config.windowed.clear();
  if (config.windowed.find('f') == std::string::npos) config.windowed.clear();
}

void write_decoder(const DecoderKind& kind, const DecoderConfig& config, const std::filesystem::path& folder) {
  const DecoderConfig c = config.settled();
  OrderedJson json = config_that_is_there(folder);
  if (!json.empty()) {
    json.erase("quantization_config");  // weights are written as numbers
    return write_config(folder, json);  // training changes no other key
  }
  json["model_type"] = kind.kind;
  json["architectures"] = {kind.architecture};
  json["num_hidden_layers"] = c.layers;
  json["hidden_size"] = c.width;
  json["num_attention_heads"] = c.heads;
  json["num_key_value_heads"] = c.kv_heads;
  json["head_dim"] = c.head_size;
  json["intermediate_size"] = c.mlp_width;
  json["max_position_embeddings"] = c.context;
  json["vocab_size"] = c.vocab;
  json["hidden_act"] = "silu";
  json["rms_norm_eps"] = c.norm_epsilon;
  json["rope_theta"] = c.rope.theta;
  const char* const type = std::ranges::find(kScalings, c.rope.scaling, [](const auto& each) { return each.second; })->first;
  json["rope_parameters"] = {{"rope_type", type}, {"rope_theta", c.rope.theta}};
  json["attention_bias"] = c.qkv_bias;
  json["mlp_bias"] = c.mlp_bias;
  json["attention_dropout"] = c.attention_dropout;
  json["initializer_range"] = c.initializer_range;
  json["tie_word_embeddings"] = c.tied;
  json["sliding_window"] = c.window > 0 ? OrderedJson(c.window) : OrderedJson();
  if (c.byte_vocabulary) json["plimsoll_tokenizer"] = "bytes";
  json["bos_token_id"] = nullptr;
  json["eos_token_id"] = nullptr;
  write_config(folder, json);
}

}  // namespace plimsoll
