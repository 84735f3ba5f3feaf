// Qwen2 and Qwen2.5: biases of queries, keys and values. Source: transformers, models/qwen2.
#include "models/all.h"
#include "models/decoder/decoder.h"

namespace plimsoll {
namespace {

DecoderConfig read(const ConfigReader& reader) {
  DecoderConfig config = read_decoder(reader, {.kv_heads = 32, .mlp_width = 22016, .context = 32768, .vocab = 151936});
  config.qkv_bias = true;
  read_qwen_windows(reader, config);
  return config;
}

DecoderConfig fresh() { return {.qkv_bias = true}; }

constexpr DecoderKind kKind{"qwen2", "Qwen2ForCausalLM", read, fresh, {.architecture = "qwen2"}};

}  // namespace

const Family kQwen2 = make_decoder_family<kKind, kQwen2>("Qwen2");

}  // namespace plimsoll
