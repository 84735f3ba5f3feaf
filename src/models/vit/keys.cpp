#include <fmt/core.h>

#include <array>

#include "models/vision_config.h"
#include "models/vit/vit.h"

namespace plimsoll {
namespace {

using M = ModelConfig;
using S = Setting;

const VitConfig& of(const M& config) { return config.as<VitConfig>(); }

// "" if a folder has two different rates.
std::string dropout_text(const M& config) {
  return of(config).dropout == of(config).attention_dropout ? toml_text(of(config).dropout) : "";
}

}  // namespace

std::span<const ModelKey> vit_keys() {
  static const std::array kKeys{
      size_key<&VitConfig::layers, kMaxLayers>("layers", true, "number of blocks", "12", every<1>),
      size_key<&VitConfig::width, kMaxWidth>("width", true, "numbers per token between the blocks, a multiple of the heads",
                                             "768", [](const M& config) { return of(config).heads; }),
      size_key<&VitConfig::heads, kMaxHeads>("heads", true, "attention heads of a block", "12"),
      size_key<&VitConfig::mlp_width, kMaxWidth>("mlp_width", true, "numbers per token inside the MLP of a block", "3072",
                                                 every<kWidthStep>),
      size_key<&VitConfig::patch, kMaxImage>("patch", true, "height and width of a patch of an image, of vit", "16"),
      size_key<&VitConfig::size, kMaxImage>("size", true, "height and width of an image, a multiple of the patch, of vit", "224"),
      classes_key<VitConfig>(),
      channels_key<VitConfig>(),
      head_key<VitConfig>(),
      ModelKey{.name = "dropout",
               .of_folder = false,
               .on_resume = OnResume::results,
               .comment = "of embeddings, attention and both branches of a block",
               .example = "0.1",
               .set =
                   [](const M& config, const S& setting) {
                     return config.with<VitConfig>(
                         [&](VitConfig& c) { c.dropout = c.attention_dropout = number(setting, 0, kBelowOne); });
                   },
               .text = dropout_text},
      ModelKey{.name = "initializer_range",
               .new_weights = true,
               .comment = "standard deviation of new weights",
               .example = "0.02",
               .set =
                   [](const M& config, const S& setting) {
                     return config.with<VitConfig>([&](VitConfig& c) { c.initializer_range = number(setting, 1e-6, 10); });
                   },
               .text = [](const M& config) { return toml_text(of(config).initializer_range); }}};
  return kKeys;
}

std::optional<ModelRemark> vit_fault(const ModelConfig& config) {
  const VitConfig& c = of(config);
  if (c.width % c.heads != 0) {
    return ModelRemark{"E-CONFIG-HEADS",
                       {"model.heads", "model.width"},
                       fmt::format("model.width = {} is not a multiple of model.heads = {}", c.width, c.heads),
                       "heads that divide the width"};
  }
  if (c.size % c.patch != 0) {
    const std::int64_t below = c.size / c.patch * c.patch;
    return ModelRemark{"E-CONFIG-PATCH",
                       {"model.patch", "model.size"},
                       fmt::format("model.size = {} is not a multiple of model.patch = {}", c.size, c.patch),
                       fmt::format("a size of {}{}", below == 0 ? "" : fmt::format("{} or ", below), below + c.patch)};
  }
  return {};
}

}  // namespace plimsoll
