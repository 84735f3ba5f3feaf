#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/mobilenet_v2/mobilenet_v2.h"
#include "models/timm.h"
#include "models/vision_config.h"

namespace plimsoll {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::array<std::int64_t, 17> kChannels{16, 24, 24, 32, 32, 32, 64, 64, 64, 64, 96, 96, 96, 160, 160, 160, 320};
constexpr std::array<std::int64_t, 17> kStrides{1, 2, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1};
// The strides of timm's stages.
constexpr std::array<std::int64_t, 7> kStageStrides{1, 2, 2, 2, 1, 2, 1};

// Rounded to a multiple of the divisor, but not by more than a tenth downwards.
std::int64_t divisible(double value, const MobilenetRounding& rounding) {
  const auto whole = static_cast<std::int64_t>(std::nearbyint(value));  // to even, as Python rounds
  const std::int64_t near = static_cast<std::int64_t>(static_cast<double>(whole) + static_cast<double>(rounding.divisor) / 2) /
                            rounding.divisor * rounding.divisor;
  const std::int64_t result = std::max(rounding.least, near);
  return static_cast<double>(result) < 0.9 * static_cast<double>(whole) ? result + rounding.divisor : result;
}

}  // namespace

void set_widths(MobilenetConfig& c, const MobilenetRounding& rounding) {
  const auto scaled = [&](std::int64_t channels) { return divisible(static_cast<double>(channels) * c.multiplier, rounding); };
  c.stem_width = scaled(32);
  c.inner.clear(), c.outputs.clear();
  c.strides.assign(kStrides.begin(), kStrides.end());
  std::int64_t channels = c.stem_width;
  for (std::size_t i = 0; i < kChannels.size(); ++i) {
    c.inner.push_back(i == 0 ? channels : divisible(static_cast<double>(channels) * rounding.expansion, rounding));
    channels = scaled(kChannels[i]);
    c.outputs.push_back(channels);
  }
  c.head_width = rounding.fine_output && c.multiplier < 1 ? 1280 : scaled(1280);
}

MobilenetConfig read_mobilenet_config(const ConfigReader& reader) {
  reader.demand("model_type", {"mobilenet_v2"});
  MobilenetConfig c;
  c.multiplier = reader.number("depth_multiplier", 1, 1e-3, 100);
  MobilenetRounding rounding;
  rounding.divisor = reader.count("depth_divisible_by", rounding.divisor, kMaxWidth);
  rounding.least = reader.count("min_depth", rounding.least, kMaxWidth);
  rounding.expansion = reader.number("expand_ratio", 6, 1e-3, 1000);
  rounding.fine_output = reader.flag("finegrained_output", true);
  set_widths(c, rounding);
  c.expands_first = !reader.flag("first_layer_is_expansion", true);
  c.uneven = reader.flag("tf_padding", true);
  c.epsilon = reader.number("layer_norm_eps", 1e-3, 1e-20, 1);
  c.dropout = reader.number("classifier_dropout_prob", 0.8, 0, 1);
  c.channels = reader.count("num_channels", c.channels, kMaxChannels);
  c.classes = read_classes(reader);
  // Smaller strides dilate convolutions.
  reader.demand("output_stride", {32});
  reader.demand("hidden_act", {"relu6"});
  reader.demand("quantization_config", {nullptr});
  return c;
}

// Blocks and widths follow from the tensors.
MobilenetConfig read_timm_mobilenet(const TimmModel& model) {
  MobilenetConfig c;
  c.timm = true;
  c.uneven = false;
  c.epsilon = 1e-5;
  c.dropout = 0;
  const Shape& stem = model.shape("conv_stem.weight", 4);
  c.stem_width = stem[0], c.channels = stem[1];
  if (model.blocks("blocks") != std::ssize(kStageStrides)) throw model.refuse("a model of seven stages, as mobilenetv2_100");
  for (std::size_t stage = 0; stage < kStageStrides.size(); ++stage) {
    c.stages.push_back(model.blocks(fmt::format("blocks.{}", stage)));
    for (std::int64_t i = 0; i < c.stages.back(); ++i) {
      const std::string block = fmt::format("blocks.{}.{}.", stage, i);
      const bool first = stage == 0 && i == 0;
      if (first == model.has(block + "conv_pwl.weight"))
        throw model.refuse("a first block without expansion, as in mobilenetv2_100");
      c.inner.push_back(model.shape(block + "conv_dw.weight", 4)[0]);
      c.outputs.push_back(model.shape(block + (first ? "conv_pw.weight" : "conv_pwl.weight"), 4)[0]);
      c.strides.push_back(i == 0 ? kStageStrides[stage] : 1);
    }
  }
  c.head_width = model.shape("conv_head.weight", 4)[0];
  c.classes = model.classes("classifier");
  model.demand_pool("avg");
  return c;
}

void write_mobilenet_config(const MobilenetConfig& c, const std::filesystem::path& folder) {
  if (c.timm) return write_timm_config(folder, c.classes);
  OrderedJson json = config_that_is_there(folder);
  if (json.empty()) {
    json["model_type"] = "mobilenet_v2";
    json["num_channels"] = c.channels;
    json["depth_multiplier"] = c.multiplier;
    json["tf_padding"] = c.uneven;
    json["layer_norm_eps"] = c.epsilon;
  }
  if (json.contains("classifier_dropout_prob") || c.dropout != MobilenetConfig().dropout)
    json["classifier_dropout_prob"] = c.dropout;
  write_classes(json, "MobileNetV2ForImageClassification", c.classes, c.head);
  write_config(folder, json);
}

}  // namespace plimsoll
