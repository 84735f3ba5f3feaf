#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/gguf.h"
#include "models/gpt2/gpt2.h"

namespace plimsoll {
namespace {

constexpr GgufNamePair kNames[] = {
    {"token_embd", "wte"}, {"position_embd", "wpe"}, {"output_norm", "ln_f"}, {"output", "lm_head"}};
constexpr GgufNamePair kBlockNames[] = {
    {"attn_norm", "ln_1"}, {"attn_qkv", "attn.c_attn"}, {"attn_output", "attn.c_proj"},
    {"ffn_norm", "ln_2"},  {"ffn_up", "mlp.c_fc"},      {"ffn_down", "mlp.c_proj"},
};
constexpr GgufLayout kLayout{.names = kNames, .block_names = kBlockNames, .blocks = "h.", .turned = true};

void put_config(const GgufModelKeys& keys, nlohmann::ordered_json& json) {
  keys.refuse_unknown({});
  const std::int64_t heads = keys.required("attention.head_count"), width = keys.required("embedding_length");
  keys.demand("attention.head_count_kv", static_cast<double>(heads));
  for (const char* name : {"attention.key_length", "attention.value_length"}) {
    keys.demand(name, static_cast<double>(width / heads));
  }
  json = {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"activation_function", "gelu_new"},
          {"n_layer", keys.blocks()},
          {"n_embd", width},
          {"n_head", heads},
          {"n_inner", keys.required("feed_forward_length")},
          {"n_positions", keys.required("context_length")},
          {"n_ctx", keys.required("context_length")},
          {"vocab_size", gguf_vocabulary(keys.file())},
          {"layer_norm_epsilon", keys.number("attention.layer_norm_epsilon", 1e-5)},
          {"tie_word_embeddings", keys.file().find("output.weight") == nullptr}};
}

GgufModel describe(const ModelConfig& config) {
  const auto& c = config.as<Gpt2Config>();
  if (c.byte_vocabulary) {
    throw config_error("E-EXPORT-MODEL", "gguf", "its tokens are bytes, for which GGUF has no tokenizer",
                       "a model with a tokenizer");
  }
  GgufModel model{.architecture = "gpt2", .keys = {}, .layout = kLayout, .rope_divisors = {}};
  GgufKeys& keys = model.keys;
  keys.put_whole("gpt2.block_count", c.layers);
  keys.put_whole("gpt2.context_length", c.context);
  keys.put_whole("gpt2.embedding_length", c.width);
  keys.put_whole("gpt2.feed_forward_length", 4 * c.width);
  keys.put_whole("gpt2.attention.head_count", c.heads);
  keys.put_number("gpt2.attention.layer_norm_epsilon", c.layer_norm_epsilon);
  keys.put_whole("gpt2.vocab_size", c.vocab);
  return model;
}

}  // namespace

const GgufForm kGpt2Gguf{put_config, [](const GgufModelKeys&) { return kLayout; }, describe};

}  // namespace plimsoll
