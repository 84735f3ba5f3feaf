// Residual networks (He et al., 2015): a stem, stages of basic or bottleneck blocks, mean pooling, a linear head. Parameters
// carry the names of a file: of transformers (ResNetForImageClassification) or of timm (resnet18 to resnet152).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/family.h"

namespace plimsoll {

struct ResnetConfig {
  enum class Layer { basic, bottleneck };
  enum class Stem { imagenet, cifar };  // 7 x 7 with stride 2 and pooling, or 3 x 3
  enum class Activation { relu, relu6, silu };

  std::vector<std::int64_t> depths{3, 4, 6, 3};            // blocks of each stage
  std::vector<std::int64_t> widths{256, 512, 1024, 2048};  // channels after each stage
  std::int64_t stem_width = 64;
  Layer layer = Layer::bottleneck;
  Stem stem = Stem::imagenet;
  Activation activation = Activation::relu;  // of the stem and after each block; ReLU inside blocks, as in transformers
  std::int64_t channels = 3;
  std::int64_t classes = 1000;
  bool stride_in_first_stage = false;  // downsample_in_first_stage
  bool stride_first = false;           // downsample_in_bottleneck: by the first product of a bottleneck
  bool timm = false;                   // names of timm
  Head head = Head::keep;

  const ResnetConfig& settled() const { return *this; }  // no size stands for a rule

  friend bool operator==(const ResnetConfig&, const ResnetConfig&) = default;
  template <class V>
  void fields(V&& v) const {
    v("depths", depths), v("widths", widths), v("stem_width", stem_width), v("layer", layer), v("stem", stem);
    v("activation", activation), v("channels", channels), v("classes", classes);
    v("stride_in_first_stage", stride_in_first_stage), v("stride_first", stride_first), v("timm", timm), v("head", head);
  }
};

inline constexpr std::array<std::string_view, 2> kResnetLayers{"basic", "bottleneck"}, kResnetStems{"imagenet", "cifar"};
inline constexpr std::array<std::string_view, 3> kResnetActivations{"relu", "relu6", "silu"};

inline std::string attribute_text(ResnetConfig::Layer layer) {
  return std::string(kResnetLayers[static_cast<std::size_t>(layer)]);
}
inline std::string attribute_text(ResnetConfig::Stem stem) { return std::string(kResnetStems[static_cast<std::size_t>(stem)]); }
inline std::string attribute_text(ResnetConfig::Activation activation) {
  return std::string(kResnetActivations[static_cast<std::size_t>(activation)]);
}

extern const Family kResnet;

ResnetConfig read_resnet_config(const ConfigReader& reader);
ResnetConfig read_timm_resnet(const TimmModel& model);
void write_resnet_config(const ResnetConfig& config, const std::filesystem::path& folder);
ModelGraph build_resnet(const ResnetConfig& config, const BatchShape& shape, const BuildOptions& options);
std::span<const ModelKey> resnet_keys();
std::optional<ModelRemark> resnet_fault(const ModelConfig& config);

}  // namespace plimsoll
