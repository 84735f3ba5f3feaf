#include "formats/huggingface.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "formats/atomic_file.h"
#include "formats/file.h"
#include "formats/json_fault.h"
#include "formats/weights_folder.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr std::int64_t kMaxConfigBytes = 1 << 20;
constexpr int kMaxDepth = 16;

// One folder's config.json with checked access to its keys.
class ConfigReader {
 public:
  explicit ConfigReader(const std::filesystem::path& path) : where_(path.string()) {
    const std::string text = read_text(path, kMaxConfigBytes, "E-FORMAT-CONFIG");
    bool too_deep = false;
    const auto watch = [&](int depth, Json::parse_event_t, Json&) { return !(too_deep = too_deep || depth > kMaxDepth); };
    json_ = Json::parse(text, watch, /*allow_exceptions=*/false);
    if (too_deep || !json_.is_object()) {
      const std::string fault = too_deep ? "" : json_fault(text);
      throw refuse(fault.empty() ? "it is not a JSON object" : "it is not JSON: " + fault, "the config.json of a GPT-2 folder");
    }
  }

  Error refuse(std::string why, std::string expected) const {
    return data_error("E-FORMAT-CONFIG", where_, std::move(why), std::move(expected));
  }

  // A whole number in [1, limit].
  std::int64_t count(const char* key, std::int64_t limit) const {
    const auto found = json_.find(key);
    if (found == json_.end()) throw refuse(fmt::format("{} is missing", key), "the shape of the model");
    const bool whole = found->is_number_integer();
    const bool small =
        whole && (!found->is_number_unsigned() || found->get<std::uint64_t>() <= static_cast<std::uint64_t>(limit));
    const std::int64_t value = small ? found->get<std::int64_t>() : 0;
    if (value < 1) throw refuse(fmt::format("{} is {}", key, shown(*found)), fmt::format("a whole number from 1 to {}", limit));
    return value;
  }
  // A number in [low, high).
  double number(const char* key, double fallback, double low, double high) const {
    const auto found = json_.find(key);
    if (found == json_.end()) return fallback;
    const double value = found->is_number() ? found->get<double>() : high;
    if (!(value >= low && value < high)) {
      throw refuse(fmt::format("{} is {}", key, shown(*found)), fmt::format("a number from {} to below {}", low, high));
    }
    return value;
  }
  // `key` is absent, null or one of `accepted`; everything else would change the computation.
  void demand(const char* key, std::initializer_list<Json> accepted) const {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null()) return;
    std::string expected;
    for (const Json& value : accepted) {
      if (*found == value) return;
      expected += (expected.empty() ? "" : " or ") + value.dump();
    }
    throw refuse(fmt::format("{} is {}", key, shown(*found)), expected);
  }
  const Json& json() const { return json_; }

  static std::string shown(const Json& value) {
    std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    if (text.size() > 60) text = text.substr(0, 57) + "...";
    return text;
  }

 private:
  std::string where_;
  Json json_;
};

// First of all: what another kind of model calls its sizes says nothing here.
void check_model_type(const ConfigReader& reader) {
  const Json type = reader.json().value("model_type", Json());
  if (type == Json("gpt2")) return;
  if (type.is_null()) throw reader.refuse("model_type is missing", "a line \"model_type\": \"gpt2\", where it is such a model");
  throw reader.refuse(fmt::format("model_type is {}, which is no kind of model that Plimsoll has", ConfigReader::shown(type)),
                      "a folder of one that it has: \"gpt2\"");
}

void check_architecture(const ConfigReader& reader, const Gpt2Config& config) {
  reader.demand("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  reader.demand("n_inner", {4 * config.width});
  reader.demand("tie_word_embeddings", {true});
  reader.demand("scale_attn_weights", {true});
  reader.demand("scale_attn_by_inverse_layer_idx", {false});
  reader.demand("reorder_and_upcast_attn", {false});
  reader.demand("add_cross_attention", {false});
  reader.demand("quantization_config", {nullptr});
  if (config.width % config.heads != 0) {
    throw reader.refuse(fmt::format("n_embd is {} and n_head is {}", config.width, config.heads), "heads that divide the width");
  }
}

// An empty object where there is none that can be read.
OrderedJson config_that_is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return OrderedJson::object();
  OrderedJson json = OrderedJson::parse(read_text(path, kMaxConfigBytes, "E-FORMAT-CONFIG"), nullptr, false);
  return json.is_object() ? json : OrderedJson::object();
}

}  // namespace

std::filesystem::path weights_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  if (path.filename() == "model.safetensors" && std::filesystem::is_regular_file(path, ignored)) {
    return std::filesystem::absolute(path, ignored).parent_path();
  }
  const bool run = !std::filesystem::exists(path / "config.json", ignored) &&
                   std::filesystem::exists(path / "weights" / "config.json", ignored);
  return run ? path / "weights" : path;
}

std::vector<std::int64_t> end_tokens(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const char* name : {"generation_config.json", "config.json"}) {
    if (!std::filesystem::exists(folder / name, ignored)) continue;
    const Json value = ConfigReader(folder / name).json().value("eos_token_id", Json());
    std::vector<std::int64_t> tokens;
    for (const Json& each : value.is_array() ? value : Json::array({value})) {
      if (each.is_number_integer()) tokens.push_back(each.get<std::int64_t>());
    }
    if (!tokens.empty()) return tokens;
  }
  return {};
}

Gpt2Config read_gpt2_config(const std::filesystem::path& folder) {
  const ConfigReader reader(folder / "config.json");
  check_model_type(reader);
  Gpt2Config config;
  config.layers = reader.count("n_layer", 1 << 12);
  config.width = reader.count("n_embd", 1 << 20);
  config.heads = reader.count("n_head", 1 << 12);
  config.context = reader.count("n_positions", 1 << 24);
  config.vocab = reader.count("vocab_size", 1 << 24);
  config.layer_norm_epsilon = reader.number("layer_norm_epsilon", config.layer_norm_epsilon, 1e-12, 1);
  config.embedding_dropout = reader.number("embd_pdrop", config.embedding_dropout, 0, 1);
  config.attention_dropout = reader.number("attn_pdrop", config.attention_dropout, 0, 1);
  config.residual_dropout = reader.number("resid_pdrop", config.residual_dropout, 0, 1);
  config.initializer_range = reader.number("initializer_range", config.initializer_range, 0, 1e3);
  reader.demand("plimsoll_tokenizer", {"bytes"});
  config.byte_vocabulary = reader.json().value("plimsoll_tokenizer", Json()) == Json("bytes");
  check_architecture(reader, config);
  return config;
}

void write_gpt2_config(const std::filesystem::path& folder, const Gpt2Config& config) {
  OrderedJson json = config_that_is_there(folder / "config.json");
  const bool is_new = json.empty();
  const auto put_if_absent = [&](const char* key, OrderedJson value) {
    if (!json.contains(key)) json[key] = std::move(value);
  };
  put_if_absent("architectures", {"GPT2LMHeadModel"});
  json["model_type"] = "gpt2";
  put_if_absent("activation_function", "gelu_new");
  json["n_layer"] = config.layers;
  json["n_embd"] = config.width;
  json["n_head"] = config.heads;
  if (json.value("n_inner", OrderedJson()) != OrderedJson(4 * config.width)) json["n_inner"] = nullptr;
  json["n_positions"] = config.context;
  json["n_ctx"] = config.context;
  json["vocab_size"] = config.vocab;
  json["layer_norm_epsilon"] = config.layer_norm_epsilon;
  json["embd_pdrop"] = config.embedding_dropout;
  json["attn_pdrop"] = config.attention_dropout;
  json["resid_pdrop"] = config.residual_dropout;
  json["initializer_range"] = config.initializer_range;
  json["scale_attn_weights"] = true;
  json["tie_word_embeddings"] = true;
  json["torch_dtype"] = "float32";
  if (json.contains("dtype")) json["dtype"] = "float32";  // its newer name
  json.erase("plimsoll_tokenizer");
  if (config.byte_vocabulary) json["plimsoll_tokenizer"] = "bytes";
  if (is_new) {
    // GPT-2's vocabulary marks both ends of a text with its last token; a byte vocabulary has no such token.
    const OrderedJson end_of_text = config.byte_vocabulary || config.vocab < 50257 ? OrderedJson() : OrderedJson(50256);
    json["bos_token_id"] = end_of_text;
    json["eos_token_id"] = end_of_text;
  }
  write_file_atomically(folder / "config.json", json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
}

std::string_view gpt2_parameter_name(std::string_view stored) {
  constexpr std::string_view kPrefix = "transformer.";
  if (stored.starts_with(kPrefix)) stored.remove_prefix(kPrefix.size());
  if (stored.ends_with(".attn.bias") || stored.ends_with(".attn.masked_bias") || stored == "lm_head.weight") return {};
  return stored;
}

}  // namespace plimsoll
