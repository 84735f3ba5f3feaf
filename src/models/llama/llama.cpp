#include "models/llama/llama.h"

#include "models/decoder/decoder.h"

namespace plimsoll {
namespace {

DecoderConfig read(const ConfigReader& reader) {
  DecoderConfig config = read_decoder(reader, {});
  config.qkv_bias = config.output_bias = read_flag(reader, "attention_bias", false);
  config.mlp_bias = read_flag(reader, "mlp_bias", false);
  return config;
}

DecoderConfig fresh() { return {}; }

constexpr DecoderKind kKind{
    "llama",
    "LlamaForCausalLM",
    read,
    fresh,
    {.architecture = "llama", .interleaved = true, .window = true, .attention_bias = true, .mlp_bias = true}};

}  // namespace

const Family kLlama = make_decoder_family<kKind, kLlama>("Llama");

}  // namespace plimsoll
