#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "models/gpt2/gpt2.h"
#include "models/shared_keys.h"

namespace plimsoll {
namespace {

using M = ModelConfig;
using S = Setting;

const Gpt2Config& of(const M& config) { return config.as<Gpt2Config>(); }

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
      layers_key<Gpt2Config>(),
      width_key<Gpt2Config>([](const M& config) { return of(config).heads; }),
      heads_key<Gpt2Config>(),
      vocab_key<Gpt2Config>(),
      dropout_key<&Gpt2Config::embedding_dropout, &Gpt2Config::attention_dropout, &Gpt2Config::residual_dropout>(
          "of embeddings, attention and both branches of a block"),
      ModelKey{.name = "layer_norm_epsilon",
               .comment = "added to the variance in layer norms",
               .example = "1e-5",
               .set =
                   [](const M& config, const S& setting) {
                     return config.with<Gpt2Config>([&](Gpt2Config& c) { c.layer_norm_epsilon = number(setting, 1e-12, 1); });
                   },
               .text = [](const M& config) { return toml_text(of(config).layer_norm_epsilon); }},
      initializer_range_key<Gpt2Config>()};
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
