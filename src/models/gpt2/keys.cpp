#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "models/gpt2/gpt2.h"
#include "models/size_keys.h"

namespace plimsoll {
namespace {

using M = ModelConfig;
using S = Setting;

const Gpt2Config& of(const M& config) { return config.as<Gpt2Config>(); }

M set_dropout(const M& config, const S& setting) {
  return config.with<Gpt2Config>(
      [&](Gpt2Config& c) { c.embedding_dropout = c.attention_dropout = c.residual_dropout = number(setting, 0, kBelowOne); });
}

// "" if a folder has three different rates.
std::string dropout_text(const M& config) {
  const Gpt2Config& c = of(config);
  const bool same = c.embedding_dropout == c.attention_dropout && c.attention_dropout == c.residual_dropout;
  return same ? toml_text(c.embedding_dropout) : "";
}

// The divisors of the width that are nearest to the given number of heads.
std::string nearest_heads(std::int64_t width, std::int64_t heads) {
  std::int64_t below = 1, above = width;
  for (std::int64_t n = 1; n <= width; ++n) {
    if (width % n != 0) continue;
    if (n < heads) below = n;
    if (n > heads) {
      above = n;
      break;
    }
  }
  return heads < width ? fmt::format("{} or {}", below, above) : fmt::format("{}", width);
}

}  // namespace

std::span<const ModelKey> gpt2_keys() {
  static const std::array kKeys{
      size_key<&Gpt2Config::layers, kMaxLayers>("layers", true, "number of blocks", "12", every<1>),
      size_key<&Gpt2Config::width, kMaxWidth>("width", true, "numbers per token between the blocks, a multiple of the heads",
                                              "768", [](const M& config) { return of(config).heads; }),
      size_key<&Gpt2Config::heads, kMaxHeads>("heads", true, "attention heads of a block", "12"),
      ModelKey{.name = "vocab",
               .required = true,
               .comment = "number of different tokens; 256 for bytes",
               .example = "50257",
               .set = set_size<&Gpt2Config::vocab, 2, kMaxVocab>,
               .text = size_text<&Gpt2Config::vocab>},
      ModelKey{.name = "dropout",
               .of_folder = false,
               .on_resume = OnResume::results,
               .comment = "of embeddings, attention and both branches of a block",
               .example = "0.1",
               .set = set_dropout,
               .text = dropout_text},
      ModelKey{.name = "layer_norm_epsilon",
               .comment = "added to the variance in layer norms",
               .example = "1e-5",
               .set =
                   [](const M& config, const S& setting) {
                     return config.with<Gpt2Config>([&](Gpt2Config& c) { c.layer_norm_epsilon = number(setting, 1e-12, 1); });
                   },
               .text = [](const M& config) { return toml_text(of(config).layer_norm_epsilon); }},
      ModelKey{.name = "initializer_range",
               .new_weights = true,
               .comment = "standard deviation of new weights",
               .example = "0.02",
               .set =
                   [](const M& config, const S& setting) {
                     return config.with<Gpt2Config>([&](Gpt2Config& c) { c.initializer_range = number(setting, 1e-6, 10); });
                   },
               .text = [](const M& config) { return toml_text(of(config).initializer_range); }}};
  return kKeys;
}

std::optional<ModelRemark> gpt2_fault(const ModelConfig& config) {
  const std::int64_t width = of(config).width, heads = of(config).heads;
  if (width % heads == 0) return {};
  const std::int64_t lower = width / heads * heads;
  const std::string widths = lower > 0 ? fmt::format("{} or {}", lower, lower + heads) : fmt::format("{}", heads);
  return ModelRemark{"E-CONFIG-HEADS",
                     {"model.heads", "model.width"},
                     fmt::format("model.width = {} is not a multiple of model.heads = {}", width, heads),
                     fmt::format("nearest heads: {}; nearest width: {}", nearest_heads(width, heads), widths)};
}

std::vector<ModelRemark> gpt2_doubts(const ModelConfig& config) {
  const Gpt2Config& c = of(config);
  std::vector<ModelRemark> doubts;
  const double dropout = std::max({c.embedding_dropout, c.attention_dropout, c.residual_dropout});
  if (dropout >= 0.8) {
    doubts.push_back({"",
                      {"model.dropout"},
                      fmt::format("a dropout of {:g} leaves {:.2g} % of the values", dropout, 100 * (1 - dropout)),
                      ""});
  }
  if (c.layer_norm_epsilon > 1e-2) {
    doubts.push_back({"",
                      {"model.layer_norm_epsilon"},
                      fmt::format("an epsilon of {:g} outweighs the variance of most layers", c.layer_norm_epsilon),
                      ""});
  }
  return doubts;
}

}  // namespace plimsoll
