// Llama 2, 3 and 3.x, SmolLM2 and all other models of model_type "llama". Source: transformers, models/llama.
#include "models/all.h"
#include "models/decoder/decoder.h"

namespace plimsoll {
namespace {

DecoderConfig read(const ConfigReader& reader) {
  DecoderConfig config = read_decoder(reader, {});
  config.qkv_bias = config.output_bias = read_flag(reader, "attention_bias", false);
  config.mlp_bias = read_flag(reader, "mlp_bias", false);
  return config;
}

constexpr DecoderKind kKind{
    "llama",
    "LlamaForCausalLM",
    read,
    nullptr,
    {.architecture = "llama", .interleaved = true, .window = true, .attention_bias = true, .mlp_bias = true}};

}  // namespace

const Family kLlama = make_decoder_family<kKind, kLlama>("Llama");

}  // namespace plimsoll
