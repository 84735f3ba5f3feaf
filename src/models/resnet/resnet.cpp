#include "models/resnet/resnet.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "models/timm.h"
#include "models/vision_config.h"

namespace plimsoll {
namespace {

const ResnetConfig& of(const ModelConfig& config) { return config.as<ResnetConfig>(); }

bool of_timm(std::string_view architecture) {
  constexpr std::array<std::string_view, 5> kNames{"resnet18", "resnet34", "resnet50", "resnet101", "resnet152"};
  return std::ranges::find(kNames, architecture) != kNames.end();
}

// Approximate: 3 x 3 layers of equal width, and images of 224 or, with the small stem, 32.
ModelFacts facts(const ModelConfig& config) {
  const ResnetConfig& c = of(config);
  const bool bottleneck = c.layer == ResnetConfig::Layer::bottleneck;
  double parameters = 49.0 * static_cast<double>(c.channels * c.stem_width), values = 0;
  double places = c.stem == ResnetConfig::Stem::cifar ? 32 * 32 : 56 * 56;
  for (std::size_t i = 0; i < std::min(c.depths.size(), c.widths.size()); ++i) {
    const double depth = static_cast<double>(c.depths[i]), width = static_cast<double>(c.widths[i]);
    parameters += depth * width * width * (bottleneck ? 17.0 / 16 : 18.0);
    values += depth * places * width * (bottleneck ? 3 : 4);
    places /= 4;
  }
  return {.positions = 1,
          .classes = c.classes,
          .channels = c.channels,
          .batch_norm = true,
          .head = c.timm ? "fc" : "classifier.1",
          .new_head = c.head == Head::fresh,
          .chance_loss = std::log(static_cast<double>(c.classes)),
          .parameters = parameters,
          .values_per_token = values};
}

std::string describe(const ModelConfig& config) {
  const ResnetConfig& c = of(config);
  std::int64_t blocks = 0;
  for (const std::int64_t depth : c.depths) blocks += depth;
  return fmt::format("resnet of {} {} blocks, width {}", blocks, attribute_text(c.layer), c.widths.empty() ? 0 : c.widths.back());
}

}  // namespace

const Family kResnet{
    .kind = "resnet",
    .title = "ResNet",
    .defaults = [] { return ModelConfig(kResnet, ResnetConfig{}); },
    .keys = resnet_keys,
    .read = [](const ConfigReader& reader) { return ModelConfig(kResnet, read_resnet_config(reader)); },
    .of_timm = of_timm,
    .read_timm = [](const TimmModel& model) { return ModelConfig(kResnet, read_timm_resnet(model)); },
    .write = [](const ModelConfig& config, const std::filesystem::path& folder) { write_resnet_config(of(config), folder); },
    .build = [](const ModelConfig& config, const BatchShape& shape,
                const BuildOptions& options) { return build_resnet(of(config), shape, options); },
    .stored = [](const ModelConfig&, std::string_view parameter) { return with_and_without("resnet.", parameter); },
    .facts = facts,
    .describe = describe,
    .fault = resnet_fault,
    .with_new_head = with_new_head<ResnetConfig>};

}  // namespace plimsoll
