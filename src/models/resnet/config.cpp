#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/resnet/resnet.h"
#include "models/timm.h"
#include "models/vision_config.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// The stem for small images, which transformers does not have.
constexpr const char* kStemKey = "plimsoll_stem";

template <std::size_t kCount>
std::size_t read_choice(const ConfigReader& reader, const char* key, const std::array<std::string_view, kCount>& names,
                        std::string_view fallback) {
  const Json value = reader.json().value(key, Json(fallback));
  std::string expected;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (value == names[i]) return i;
    expected += fmt::format("{}\"{}\"", expected.empty() ? "" : " or ", names[i]);
  }
  throw reader.refuse(fmt::format("{} is {}", key, ConfigReader::shown(value)), expected);
}

}  // namespace

ResnetConfig read_resnet_config(const ConfigReader& reader) {
  reader.demand("model_type", {"resnet"});
  ResnetConfig c;
  c.depths = read_counts(reader, "depths", c.depths, kMaxLayers);
  c.widths = read_counts(reader, "hidden_sizes", c.widths, kMaxWidth);
  c.stem_width = reader.count("embedding_size", c.stem_width, kMaxWidth);
  c.layer = static_cast<ResnetConfig::Layer>(read_choice(reader, "layer_type", kResnetLayers, "bottleneck"));
  c.stem = static_cast<ResnetConfig::Stem>(read_choice(reader, kStemKey, kResnetStems, "imagenet"));
  c.activation = static_cast<ResnetConfig::Activation>(read_choice(reader, "hidden_act", kResnetActivations, "relu"));
  c.stride_in_first_stage = reader.flag("downsample_in_first_stage", false);
  c.stride_first = reader.flag("downsample_in_bottleneck", false);
  c.channels = reader.count("num_channels", c.channels, kMaxChannels);
  c.classes = read_classes(reader);
  reader.demand("quantization_config", {nullptr});
  if (c.depths.size() != c.widths.size()) {
    throw reader.refuse(fmt::format("there are {} depths and {} hidden_sizes", c.depths.size(), c.widths.size()),
                        "one of each for every stage");
  }
  if (c.layer == ResnetConfig::Layer::bottleneck && std::ranges::any_of(c.widths, [](std::int64_t w) { return w % 4 != 0; })) {
    throw reader.refuse("a bottleneck has a width that 4 does not divide", "hidden_sizes that are multiples of 4");
  }
  return c;
}

// Stages, blocks and widths follow from the tensors.
ResnetConfig read_timm_resnet(const TimmModel& model) {
  ResnetConfig c;
  c.timm = true;
  c.layer = model.has("layer1.0.conv3.weight") ? ResnetConfig::Layer::bottleneck : ResnetConfig::Layer::basic;
  const char* last = c.layer == ResnetConfig::Layer::bottleneck ? "conv3" : "conv2";
  c.depths.clear(), c.widths.clear();
  for (int stage = 1; stage <= 4; ++stage) {
    c.depths.push_back(model.blocks(fmt::format("layer{}", stage)));
    c.widths.push_back(model.shape(fmt::format("layer{}.0.{}.weight", stage, last), 4)[0]);
  }
  const Shape& stem = model.shape("conv1.weight", 4);
  c.stem_width = stem[0], c.channels = stem[1];
  if (stem[2] != 7 || stem[3] != 7) throw model.refuse("a stem of 7 x 7, as in resnet18 to resnet152");
  c.classes = model.classes("fc");
  model.demand_pool("avg");
  return c;
}

void write_resnet_config(const ResnetConfig& c, const std::filesystem::path& folder) {
  if (c.timm) return write_timm_config(folder, c.classes);
  OrderedJson json = config_that_is_there(folder);
  if (json.empty()) {
    json["model_type"] = "resnet";
    json["num_channels"] = c.channels;
    json["embedding_size"] = c.stem_width;
    json["hidden_sizes"] = c.widths;
    json["depths"] = c.depths;
    json["layer_type"] = attribute_text(c.layer);
    json["hidden_act"] = attribute_text(c.activation);
    json["downsample_in_first_stage"] = c.stride_in_first_stage;
    json["downsample_in_bottleneck"] = c.stride_first;
    if (c.stem != ResnetConfig::Stem::imagenet) json[kStemKey] = attribute_text(c.stem);
  }
  write_classes(json, "ResNetForImageClassification", c.classes, c.head);
  write_config(folder, json);
}

}  // namespace plimsoll
