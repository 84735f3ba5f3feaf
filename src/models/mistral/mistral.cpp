#include "models/mistral/mistral.h"

#include <nlohmann/json.hpp>

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

DecoderConfig fresh() { return {}; }

constexpr DecoderKind kKind{
    "mistral", "MistralForCausalLM", read, fresh, {.architecture = "llama", .interleaved = true, .window = true}};

}  // namespace

const Family kMistral = make_decoder_family<kKind, kMistral>("Mistral");

}  // namespace plimsoll
