// MobileNetV2 (Sandler et al., 2018): inverted residuals with depthwise convolutions. Parameters carry the names of a file: of
// transformers (MobileNetV2ForImageClassification) or of timm (mobilenetv2_*).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/family.h"

namespace plimsoll {

struct MobilenetConfig {
  // A block is an inverted residual: 1 x 1 to `inner` channels, 3 x 3 of each channel, 1 x 1 to `outputs`.
  double multiplier = 1;              // depth_multiplier, of transformers
  std::int64_t stem_width = 32;       // after the first convolution
  std::int64_t head_width = 1280;     // before the head
  std::vector<std::int64_t> inner;    // of each block; the first block is part of the stem
  std::vector<std::int64_t> outputs;  // of each block
  std::vector<std::int64_t> strides;  // of each block
  std::vector<std::int64_t> stages;   // blocks of each stage, for names of timm
  bool expands_first = false;         // the first block has a 1 x 1 convolution before the depthwise one
  bool uneven = true;                 // padding of TensorFlow
  double epsilon = 1e-3;
  double dropout = 0.8;  // of the features
  std::int64_t channels = 3;
  std::int64_t classes = 1000;
  bool timm = false;  // names of timm
  Head head = Head::keep;

  const MobilenetConfig& settled() const { return *this; }  // no size stands for a rule

  friend bool operator==(const MobilenetConfig&, const MobilenetConfig&) = default;
  template <class V>
  void fields(V&& v) const {
    v("multiplier", multiplier), v("stem_width", stem_width), v("head_width", head_width), v("inner", inner);
    v("outputs", outputs), v("strides", strides), v("stages", stages), v("expands_first", expands_first), v("uneven", uneven);
    v("epsilon", epsilon), v("dropout", dropout), v("channels", channels), v("classes", classes), v("timm", timm),
        v("head", head);
  }
};

extern const Family kMobilenetV2;

// The widths of transformers for a multiplier: channels are rounded to multiples of `divisor`, at least `least`.
struct MobilenetRounding {
  std::int64_t divisor = 8, least = 8;
  double expansion = 6;
  bool fine_output = true;  // the width before the head stays where the multiplier is below one
};
void set_widths(MobilenetConfig& config, const MobilenetRounding& rounding);

MobilenetConfig read_mobilenet_config(const ConfigReader& reader);
MobilenetConfig read_timm_mobilenet(const TimmModel& model);
void write_mobilenet_config(const MobilenetConfig& config, const std::filesystem::path& folder);
ModelGraph build_mobilenet(const MobilenetConfig& config, const BatchShape& shape, const BuildOptions& options);
std::span<const ModelKey> mobilenet_keys();

}  // namespace plimsoll
