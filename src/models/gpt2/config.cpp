#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "formats/config_json.h"
#include "models/gpt2/gpt2.h"
#include "models/shared_keys.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

void check_architecture(const ConfigReader& reader, const Gpt2Config& config) {
  reader.demand("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  reader.demand("n_inner", {4 * config.width});
  reader.demand("tie_word_embeddings", {true, false});
  reader.demand("scale_attn_weights", {true});
  reader.demand("scale_attn_by_inverse_layer_idx", {false});
  reader.demand("reorder_and_upcast_attn", {false});
  reader.demand("add_cross_attention", {false});
  reader.demand("quantization_config", {nullptr});
  if (config.width % config.heads != 0) {
    throw reader.refuse(fmt::format("n_embd is {} and n_head is {}", config.width, config.heads), "heads that divide the width");
  }
}

}  // namespace

Gpt2Config read_gpt2_config(const ConfigReader& reader) {
  reader.demand("model_type", {"gpt2"});
  Gpt2Config config;
  config.layers = reader.count("n_layer", kMaxLayers);
  config.width = reader.count("n_embd", kMaxWidth);
  config.heads = reader.count("n_head", kMaxHeads);
  config.context = reader.count("n_positions", kMaxPositions);
  config.vocab = reader.count("vocab_size", kMaxVocab);
  config.layer_norm_epsilon = reader.number("layer_norm_epsilon", config.layer_norm_epsilon, 1e-12, 1);
  config.embedding_dropout = reader.number("embd_pdrop", config.embedding_dropout, 0, 1);
  config.attention_dropout = reader.number("attn_pdrop", config.attention_dropout, 0, 1);
  config.residual_dropout = reader.number("resid_pdrop", config.residual_dropout, 0, 1);
  config.initializer_range = reader.number("initializer_range", config.initializer_range, 0, 1e3);
  reader.demand("plimsoll_tokenizer", {"bytes"});
  config.byte_vocabulary = reader.json().value("plimsoll_tokenizer", Json()) == Json("bytes");
  config.tied = reader.json().value("tie_word_embeddings", Json(true)) != Json(false);
  check_architecture(reader, config);
  return config;
}

void write_gpt2_config(const Gpt2Config& config, const std::filesystem::path& folder) {
  OrderedJson json = config_that_is_there(folder);
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
  json["tie_word_embeddings"] = config.tied;
  json.erase("plimsoll_tokenizer");
  if (config.byte_vocabulary) json["plimsoll_tokenizer"] = "bytes";
  if (is_new) {
    // GPT-2's vocabulary marks both ends of a text with its last token; a byte vocabulary has no such token.
    const OrderedJson end_of_text = config.byte_vocabulary || config.vocab < 50257 ? OrderedJson() : OrderedJson(50256);
    json["bos_token_id"] = end_of_text;
    json["eos_token_id"] = end_of_text;
  }
  write_config(folder, json);
}

}  // namespace plimsoll
