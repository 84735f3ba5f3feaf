#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "models/resnet/resnet.h"
#include "models/vision_config.h"

namespace plimsoll {
namespace {

using M = ModelConfig;
using S = Setting;

const ResnetConfig& of(const M& config) { return config.as<ResnetConfig>(); }

template <auto kField, std::int64_t kMost>
M set_list(const M& config, const S& setting) {
  return config.with<ResnetConfig>([&](ResnetConfig& c) { c.*kField = wholes(setting, 1, kMost); });
}

template <auto kField, const auto& kNames>
M set_choice(const M& config, const S& setting) {
  return config.with<ResnetConfig>([&](ResnetConfig& c) {
    using Choice = std::remove_reference_t<decltype(c.*kField)>;
    c.*kField = static_cast<Choice>(choice(setting, kNames));
  });
}

}  // namespace

std::span<const ModelKey> resnet_keys() {
  static const std::array kKeys{
      ModelKey{.name = "depths",
               .required = true,
               .comment = "blocks of each stage, of resnet",
               .example = "[2, 2, 2, 2]",
               .set = set_list<&ResnetConfig::depths, kMaxLayers>,
               .text = [](const M& config) { return list_text(of(config).depths); }},
      ModelKey{.name = "widths",
               .required = true,
               .comment = "channels after each stage, of resnet",
               .example = "[64, 128, 256, 512]",
               .set = set_list<&ResnetConfig::widths, kMaxWidth>,
               .text = [](const M& config) { return list_text(of(config).widths); }},
      ModelKey{.name = "stem_width",
               .comment = "channels after the first convolution, of resnet",
               .example = "64",
               .set = set_size<&ResnetConfig::stem_width, 1, kMaxWidth>,
               .text = size_text<&ResnetConfig::stem_width>},
      ModelKey{.name = "layer",
               .required = true,
               .comment = "kind of a block, basic or bottleneck, of resnet",
               .example = "\"basic\"",
               .set = set_choice<&ResnetConfig::layer, kResnetLayers>,
               .text = [](const M& config) { return toml_text(attribute_text(of(config).layer)); }},
      ModelKey{.name = "stem",
               .comment = "first layers, of resnet: imagenet (7 x 7, stride 2, pooling) or cifar (3 x 3) for small images",
               .example = "\"imagenet\"",
               .set = set_choice<&ResnetConfig::stem, kResnetStems>,
               .text = [](const M& config) { return toml_text(attribute_text(of(config).stem)); }},
      ModelKey{.name = "activation",
               .comment = "relu, relu6 or silu after the stem and each block, of resnet; inside blocks it is relu",
               .example = "\"relu\"",
               .set = set_choice<&ResnetConfig::activation, kResnetActivations>,
               .text = [](const M& config) { return toml_text(attribute_text(of(config).activation)); }},
      classes_key<ResnetConfig>(),
      channels_key<ResnetConfig>(),
      head_key<ResnetConfig>()};
  return kKeys;
}

std::optional<ModelRemark> resnet_fault(const ModelConfig& config) {
  const ResnetConfig& c = of(config);
  if (c.depths.size() != c.widths.size()) {
    return ModelRemark{"E-CONFIG-STAGES",
                       {"model.depths", "model.widths"},
                       fmt::format("model.depths has {} stages and model.widths {}", c.depths.size(), c.widths.size()),
                       "one number of each for every stage"};
  }
  if (c.layer == ResnetConfig::Layer::bottleneck && std::ranges::any_of(c.widths, [](std::int64_t w) { return w % 4 != 0; })) {
    return ModelRemark{
        "E-CONFIG-STAGES", {"model.widths"}, "a bottleneck has a quarter of its width inside", "widths that are multiples of 4"};
  }
  return {};
}

}  // namespace plimsoll
