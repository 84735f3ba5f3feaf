// Mistral: a sliding window on every layer if the file has one. Source: transformers, models/mistral.
#include <nlohmann/json.hpp>

#include "models/all.h"
#include "models/decoder/decoder.h"

namespace plimsoll {
namespace {

DecoderConfig read(const ConfigReader& reader) {
  DecoderConfig config = read_decoder(reader, {.kv_heads = 8, .mlp_width = 14336, .context = 4096 * 32});
  config.window = window_of(reader, 4096);
  // transformers opens a file with both kinds of layers as another model.
  const char* const kind = config.window > 0 ? "sliding_attention" : "full_attention";
  reader.demand("layer_types", {nlohmann::json(static_cast<std::size_t>(config.layers), kind)});
  return config;
}

constexpr DecoderKind kKind{
    "mistral", "MistralForCausalLM", read, nullptr, {.architecture = "llama", .interleaved = true, .window = true}};

}  // namespace

const Family kMistral = make_decoder_family<kKind, kMistral>("Mistral");

}  // namespace plimsoll
