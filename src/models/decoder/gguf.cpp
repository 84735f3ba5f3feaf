#include "formats/gguf/gguf_config.h"
#include "formats/gguf/gguf_model.h"

#include <fmt/core.h>

#include <string>

#include "base/error.h"
#include "models/decoder/decoder.h"

namespace plimsoll {
namespace {

using ops::RotaryScaling;

Error refuse(const std::string& what, std::string expected) {
  return config_error("E-EXPORT-MODEL", "gguf", what, std::move(expected));
}

// Mistral is a llama with another window.
std::string architecture_of(const ModelConfig& config) {
  const std::string kind(config.family().kind);
  return kind == "mistral" ? "llama" : kind;
}

void refuse_what_no_key_says(const DecoderConfig& c, const std::string& architecture) {
  if (c.activation != ops::Activation::silu) throw refuse("the activation of its MLPs is not SiLU", "hidden_act silu");
  if (architecture != "llama" && c.window > 0) {
    throw refuse(fmt::format("some layers see only {} keys", c.window), "attention over all keys, or a Mistral model");
  }
  if (architecture == "qwen3" && (c.qkv_bias || c.output_bias)) throw refuse("its attention has biases", "attention_bias false");
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
    case RotaryScaling::llama3:
      model.rope_divisors = llama3_divisors({rope.factor, rope.low, rope.high, rope.original}, rope.theta, c.head_size / 2);
      model.keys.put_whole(prefix + "rope.scaling.original_context_length", rope.original);
      return;
    case RotaryScaling::yarn: {
      const ops::RotaryAttributes usual;
      if (!rope.truncate || rope.attention_factor > 0 || rope.mscale != 0 || rope.mscale_all_dim != 0) {
        throw refuse("its YaRN has settings of its own beside the factor", "YaRN of its usual settings");
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

GgufModel decoder_gguf(const ModelConfig& config) {
  const DecoderConfig c = config.as<DecoderConfig>().settled();
  GgufModel model{
      .architecture = architecture_of(config), .keys = {}, .heads = c.heads, .kv_heads = c.kv_heads, .rope_divisors = {}};
  refuse_what_no_key_says(c, model.architecture);
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
