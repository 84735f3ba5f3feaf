#include "models/mistral/mistral.h"

#include <nlohmann/json.hpp>

#include "models/decoder/decoder.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kMaxWindow = 1 << 24;

DecoderConfig read(const ConfigReader& reader) {
  DecoderConfig config = read_decoder(reader, {.kv_heads = 8, .mlp_width = 14336, .context = 4096 * 32});
  const auto window = reader.json().find("sliding_window");
  if (window == reader.json().end()) {
    config.window = 4096;
  } else if (!window->is_null()) {
    config.window = reader.count("sliding_window", kMaxWindow);
  }
  return config;
}

DecoderConfig fresh() { return {}; }

constexpr DecoderKind kKind{"mistral", "MistralForCausalLM", read, fresh};

}  // namespace

const Family kMistral = make_decoder_family<kKind, kMistral>("Mistral");

}  // namespace plimsoll
