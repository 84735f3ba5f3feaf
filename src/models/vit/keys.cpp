#include <fmt/core.h>

#include <array>

#include "models/vision_config.h"
#include "models/vit/vit.h"

namespace plimsoll {
namespace {

const VitConfig& of(const ModelConfig& config) { return config.as<VitConfig>(); }

}  // namespace

std::span<const ModelKey> vit_keys() {
  static const std::array kKeys{
      layers_key<VitConfig>(),
      width_key<VitConfig>([](const ModelConfig& config) { return of(config).heads; }),
      heads_key<VitConfig>(),
      size_key<&VitConfig::mlp_width, kMaxWidth>("mlp_width", true, "numbers per token inside the MLP of a block", "3072",
                                                 every<kWidthStep>),
      size_key<&VitConfig::patch, kMaxImage>("patch", true, "height and width of a patch of an image, of vit", "16"),
      size_key<&VitConfig::size, kMaxImage>("size", true, "height and width of an image, a multiple of the patch, of vit", "224"),
      classes_key<VitConfig>(),
      channels_key<VitConfig>(),
      head_key<VitConfig>(),
      dropout_key<&VitConfig::dropout, &VitConfig::attention_dropout>("of embeddings, attention and both branches of a block"),
      initializer_range_key<VitConfig>()};
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
