#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "models/decoder/decoder.h"
#include "models/shared_keys.h"

namespace plimsoll {
namespace {

using M = ModelConfig;
using S = Setting;

DecoderConfig of(const M& config) { return config.as<DecoderConfig>().settled(); }

// Heads divide the width unless their size is given; their sizes stay even.
std::int64_t width_step(const M& config) {
  const DecoderConfig& c = config.as<DecoderConfig>();
  return c.head_size == 0 ? 2 * c.heads : kWidthStep;
}

}  // namespace

DecoderConfig DecoderConfig::settled() const {
  DecoderConfig result = *this;
  if (kv_heads == 0) result.kv_heads = heads;
  if (head_size == 0) result.head_size = std::max<std::int64_t>(1, width / heads);
  return result;
}

std::span<const ModelKey> decoder_keys() {
  static const std::array kKeys{
      layers_key<DecoderConfig>(),
      width_key<DecoderConfig>(width_step),
      heads_key<DecoderConfig>(),
      size_key<&DecoderConfig::kv_heads, kMaxHeads>(
          "kv_heads", false, "heads of keys and values, of llama and alike; by default as many as heads", "4"),
      size_key<&DecoderConfig::head_size, kMaxWidth>(
          "head_size", false, "numbers of a head, of llama and alike; by default width / heads", "64", every<2>),
      size_key<&DecoderConfig::mlp_width, kMaxWidth>(
          "mlp_width", true, "numbers per token inside the MLP of a block, of llama and alike", "2048", every<kWidthStep>),
      vocab_key<DecoderConfig>(),
      ModelKey{.name = "rope_theta",
               .comment = "base of the rotary frequencies, of llama and alike",
               .example = "10000.0",
               .set =
                   [](const M& config, const S& setting) {
                     return config.with<DecoderConfig>([&](DecoderConfig& c) { c.rope.theta = number(setting, 1, 1e12); });
                   },
               .text = [](const M& config) { return toml_text(of(config).rope.theta); }},
      ModelKey{
          .name = "tied",
          .comment = "whether the table of tokens is the head, too, of llama and alike",
          .example = "true",
          .set = [](const M& config,
                    const S& setting) { return config.with<DecoderConfig>([&](DecoderConfig& c) { c.tied = flag(setting); }); },
          .text = [](const M& config) { return std::string(of(config).tied ? "true" : "false"); }},
      dropout_key<&DecoderConfig::attention_dropout>("of attention"),
      initializer_range_key<DecoderConfig>()};
  return kKeys;
}

std::vector<std::string> decoder_stored(const ModelConfig& config, std::string_view parameter) {
  std::vector<std::string> names = with_and_without("model.", parameter);
  if (of(config).tied && parameter == "model.embed_tokens.weight") names.emplace_back("lm_head.weight");
  return names;
}

// Angles stored by old files.
bool decoder_ignored(std::string_view name) { return name.ends_with("rotary_emb.inv_freq"); }

ModelFacts decoder_facts(const ModelConfig& config) {
  const DecoderConfig c = of(config);
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  const double width = number(c.width), vocab = number(c.vocab), layers = number(c.layers);
  const double attended = number(c.heads * c.head_size), keys = number(c.kv_heads * c.head_size), mlp = number(c.mlp_width);
  const double block = width * (2 * attended + 2 * keys) + 3 * width * mlp;
  return {.vocab = c.vocab,
          .positions = c.context,
          .open_ended = true,
          .bytes = c.byte_vocabulary,
          .chance_loss = std::log(vocab),
          .parameters = (c.tied ? 1 : 2) * vocab * width + layers * block,
          .values_per_token = vocab + layers * (6 * width + 2 * attended + 4 * keys + 3 * mlp)};
}

std::string decoder_text(const ModelConfig& config) {
  return fmt::format("{} of {} layers, width {}", config.family().kind, of(config).layers, of(config).width);
}

std::optional<ModelRemark> decoder_fault(const ModelConfig& config) {
  const DecoderConfig c = of(config);
  constexpr double kMostParameters = 1e12;
  if (const double parameters = decoder_facts(config).parameters; parameters > kMostParameters) {
    return ModelRemark{"E-CONFIG-RANGE",
                       {"model.width", "model.mlp_width", "model.layers", "model.vocab"},
                       fmt::format("the model has {:.3g} parameters", parameters),
                       fmt::format("at most {:.0g}", kMostParameters)};
  }
  if (c.heads % c.kv_heads != 0) {
    return ModelRemark{"E-CONFIG-HEADS",
                       {"model.kv_heads", "model.heads"},
                       fmt::format("model.heads = {} is not a multiple of model.kv_heads = {}", c.heads, c.kv_heads),
                       "heads of keys and values that divide the heads"};
  }
  if (config.as<DecoderConfig>().head_size == 0 && c.width % c.heads != 0) {
    return ModelRemark{"E-CONFIG-HEADS",
                       {"model.heads", "model.width"},
                       fmt::format("model.width = {} is not a multiple of model.heads = {}", c.width, c.heads),
                       "heads that divide the width, or model.head_size"};
  }
  if (c.head_size % 2 != 0) {
    return ModelRemark{"E-CONFIG-HEADS",
                       {"model.head_size"},
                       fmt::format("model.head_size = {} is odd", c.head_size),
                       "an even number: rotary positions turn pairs"};
  }
  return {};
}

ModelConfig decoder_with_vocabulary(const ModelConfig& config, std::int64_t vocab, bool bytes) {
  return config.with<DecoderConfig>([&](DecoderConfig& c) {
    c.vocab = vocab;
    c.byte_vocabulary = bytes;
  });
}

ModelConfig decoder_with_positions(const ModelConfig& config, std::int64_t positions) {
  return config.with<DecoderConfig>([&](DecoderConfig& c) { c.context = positions; });
}

}  // namespace plimsoll
