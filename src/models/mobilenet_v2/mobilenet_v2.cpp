#include "models/mobilenet_v2/mobilenet_v2.h"

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

using M = ModelConfig;
using S = Setting;

const MobilenetConfig& of(const M& config) { return config.as<MobilenetConfig>(); }

// "mobilenetv2_100", "mobilenetv2_110d": a multiplier, perhaps with more blocks.
bool of_timm(std::string_view architecture) {
  constexpr std::string_view kPrefix = "mobilenetv2_";
  if (!architecture.starts_with(kPrefix)) return false;
  architecture.remove_prefix(kPrefix.size());
  if (architecture.ends_with('d')) architecture.remove_suffix(1);
  return architecture.size() == 3 && std::ranges::all_of(architecture, [](char c) { return c >= '0' && c <= '9'; });
}

// Approximate; for images of 224.
ModelFacts facts(const ModelConfig& config) {
  const MobilenetConfig& c = of(config);
  double parameters = static_cast<double>(c.head_width * c.classes), values = 0, places = 112 * 112;
  for (std::size_t i = 0; i < c.outputs.size(); ++i) {
    const double inner = static_cast<double>(c.inner[i]), outputs = static_cast<double>(c.outputs[i]);
    parameters += 2 * inner * outputs + 9 * inner;
    if (c.strides[i] == 2) places /= 4;
    values += places * (4 * inner + 2 * outputs);
  }
  return {.positions = 1,
          .classes = c.classes,
          .channels = c.channels,
          .batch_norm = true,
          .head = "classifier",
          .new_head = c.head == Head::fresh,
          .chance_loss = std::log(static_cast<double>(c.classes)),
          .parameters = parameters,
          .values_per_token = values};
}

ModelConfig defaults() {
  MobilenetConfig config;
  config.dropout = 0.2;  // of new models; transformers' default drops most features
  set_widths(config, {});
  return {kMobilenetV2, config};
}

std::vector<ModelRemark> doubts(const ModelConfig& config) {
  const double dropout = of(config).dropout;
  std::vector<ModelRemark> doubts;
  if (dropout >= 0.8) {
    doubts.push_back({"",
                      {"model.dropout"},
                      fmt::format("a dropout of {:g} leaves {:.2g} % of the features", dropout, 100 * (1 - dropout)),
                      ""});
  }
  if (!of(config).timm) {
    doubts.push_back(
        {"", {"norm.momentum"}, "transformers moves running statistics by 0.997 of each batch, Plimsoll by norm.momentum", ""});
  }
  return doubts;
}

}  // namespace

std::span<const ModelKey> mobilenet_keys() {
  static const std::array kKeys{
      ModelKey{.name = "multiplier",
               .comment = "factor of all widths, of mobilenet_v2",
               .example = "1.0",
               .set =
                   [](const M& config, const S& setting) {
                     return config.with<MobilenetConfig>([&](MobilenetConfig& c) {
                       c.multiplier = number(setting, 0.05, 10);
                       set_widths(c, {});
                     });
                   },
               .text = [](const M& config) { return of(config).timm ? std::string() : toml_text(of(config).multiplier); }},
      classes_key<MobilenetConfig>(), channels_key<MobilenetConfig>(), head_key<MobilenetConfig>(),
      dropout_key<&MobilenetConfig::dropout>("of the features before the head, of mobilenet_v2", "0.2")};
  return kKeys;
}

const Family kMobilenetV2{
    .kind = "mobilenet_v2",
    .title = "MobileNetV2",
    .defaults = defaults,
    .keys = mobilenet_keys,
    .read = [](const ConfigReader& reader) { return ModelConfig(kMobilenetV2, read_mobilenet_config(reader)); },
    .of_timm = of_timm,
    .read_timm = [](const TimmModel& model) { return ModelConfig(kMobilenetV2, read_timm_mobilenet(model)); },
    .write = [](const ModelConfig& config, const std::filesystem::path& folder) { write_mobilenet_config(of(config), folder); },
    .build = [](const ModelConfig& config, const BatchShape& shape,
                const BuildOptions& options) { return build_mobilenet(of(config), shape, options); },
    .stored = [](const ModelConfig&, std::string_view parameter) { return with_and_without("mobilenet_v2.", parameter); },
    .facts = facts,
    .describe =
        [](const ModelConfig& config) {
          return fmt::format("mobilenet_v2 of {} blocks, width {}", of(config).outputs.size(), of(config).head_width);
        },
    .doubts = doubts,
    .with_new_head = with_new_head<MobilenetConfig>};

}  // namespace plimsoll
