// Qwen3 without experts: RMS norms of each head of queries and keys. Source: transformers, models/qwen3.
#include "models/all.h"
#include "models/decoder/decoder.h"

namespace plimsoll {
namespace {

DecoderConfig read(const ConfigReader& reader) {
  DecoderConfig config =
      read_decoder(reader, {.kv_heads = 32, .head_size = 128, .mlp_width = 22016, .context = 32768, .vocab = 151936});
  config.qkv_bias = config.output_bias = read_flag(reader, "attention_bias", false);
  config.head_norms = true;
  read_qwen_windows(reader, config);
  return config;
}

DecoderConfig fresh() { return {.head_norms = true}; }

constexpr DecoderKind kKind{"qwen3", "Qwen3ForCausalLM", read, fresh, {.architecture = "qwen3", .attention_bias = true}};

}  // namespace

const Family kQwen3 = make_decoder_family<kKind, kQwen3>("Qwen3");

}  // namespace plimsoll
