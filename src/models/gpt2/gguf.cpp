#include "formats/gguf/gguf_model.h"

#include "base/error.h"
#include "models/gpt2/gpt2.h"

namespace plimsoll {

GgufModel gpt2_gguf(const ModelConfig& config) {
  const auto& c = config.as<Gpt2Config>();
  if (c.byte_vocabulary) {
    throw config_error("E-EXPORT-MODEL", "gguf", "its tokens are bytes, for which GGUF has no tokenizer",
                       "a model with a tokenizer");
  }
  GgufModel model{.architecture = "gpt2", .keys = {}, .heads = c.heads, .kv_heads = c.heads, .rope_divisors = {}};
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

}  // namespace plimsoll
