#include <fmt/core.h>

#include <optional>
#include <utility>
#include <vector>

#include "models/conv_norm.h"
#include "models/mobilenet_v2/mobilenet_v2.h"
#include "ops/dropout/dropout.h"
#include "ops/pooling/pooling.h"
#include "ops/shape/shape_ops.h"

namespace plimsoll {
namespace {

using ops::NormActivation;

enum class Part { expand, depthwise, reduce };

// The names of a block's layers. `place`: stage and block within it, of timm.
ConvNormNames names_of(const MobilenetConfig& c, std::size_t block, std::pair<std::size_t, std::int64_t> place, Part part) {
  const bool first = block == 0;
  if (c.timm) {
    const std::string prefix = fmt::format("blocks.{}.{}.", place.first, place.second);
    const bool short_form = first && !c.expands_first;
    switch (part) {
      case Part::expand: return {prefix + "conv_pw", prefix + "bn1"};
      case Part::depthwise: return {prefix + "conv_dw", prefix + (short_form ? "bn1" : "bn2")};
      case Part::reduce: return {prefix + (short_form ? "conv_pw" : "conv_pwl"), prefix + (short_form ? "bn2" : "bn3")};
    }
  }
  const std::string prefix = first ? "mobilenet_v2.conv_stem." : fmt::format("mobilenet_v2.layer.{}.", block - 1);
  constexpr std::array<const char*, 3> kParts{"expand_1x1", "conv_3x3", "reduce_1x1"};
  const std::string layer = prefix + kParts[static_cast<std::size_t>(part)];
  return {layer + ".convolution", layer + ".normalization"};
}

class Block {
 public:
  Block(GraphBuilder& builder, const MobilenetConfig& c, std::size_t block, std::pair<std::size_t, std::int64_t> place,
        std::int64_t channels, const NormOptions& norm)
      : adds_(block > 0 && c.strides[block] == 1 && channels == c.outputs[block]) {
    const std::int64_t inner = c.inner[block];
    const auto shape = [&](std::int64_t from, std::int64_t to) {
      return ConvNormShape{.channels = from, .outputs = to, .uneven = c.uneven, .epsilon = c.epsilon};
    };
    if (block > 0 || c.expands_first) {
      expand_.emplace(builder, names_of(c, block, place, Part::expand), shape(channels, inner), norm);
    }
    ConvNormShape depthwise = shape(inner, inner);
    depthwise.kernel = 3, depthwise.stride = c.strides[block], depthwise.depthwise = true;
    depthwise_.emplace(builder, names_of(c, block, place, Part::depthwise), depthwise, norm);
    reduce_.emplace(builder, names_of(c, block, place, Part::reduce), shape(inner, c.outputs[block]), norm);
  }

  ValueId operator()(GraphBuilder& builder, ValueId x, const ImageStep& step) const {
    ValueId y = expand_ ? (*expand_)(builder, x, step, NormActivation::relu6) : x;
    y = (*depthwise_)(builder, y, step, NormActivation::relu6);
    return (*reduce_)(builder, y, step, NormActivation::none, adds_ ? x : ValueId{});
  }

 private:
  bool adds_;
  std::optional<ConvNorm> expand_, depthwise_, reduce_;
};

class Mobilenet final : public VisionModel {
 public:
  Mobilenet(GraphBuilder& builder, const MobilenetConfig& c, const BuildOptions& options) : config_(c), seed_(options.seed) {
    const ConvNormShape stem{
        .channels = c.channels, .outputs = c.stem_width, .kernel = 3, .stride = 2, .uneven = c.uneven, .epsilon = c.epsilon};
    const std::string first = "mobilenet_v2.conv_stem.first_conv", last = "mobilenet_v2.conv_1x1";
    stem_.emplace(builder,
                  c.timm ? ConvNormNames{"conv_stem", "bn1"} : ConvNormNames{first + ".convolution", first + ".normalization"},
                  stem, options.norm);
    std::int64_t channels = c.stem_width;
    std::pair<std::size_t, std::int64_t> place{0, 0};
    for (std::size_t block = 0; block < c.outputs.size(); ++block) {
      blocks_.emplace_back(builder, c, block, place, channels, options.norm);
      channels = c.outputs[block];
      if (c.timm && ++place.second == c.stages[place.first]) ++place.first, place.second = 0;
    }
    const ConvNormShape top{.channels = channels, .outputs = c.head_width, .uneven = c.uneven, .epsilon = c.epsilon};
    top_.emplace(builder,
                 c.timm ? ConvNormNames{"conv_head", "bn2"} : ConvNormNames{last + ".convolution", last + ".normalization"}, top,
                 options.norm);
    head_ = class_head(builder, "classifier", c.head_width, c.classes, c.head == Head::fresh);
  }

  ValueId logits(GraphBuilder& builder, const ImageStep& step) const override {
    ValueId x = (*stem_)(builder, step.pixels, step, NormActivation::relu6);
    for (const Block& block : blocks_) x = block(builder, x, step);
    x = (*top_)(builder, x, step, NormActivation::relu6);
    {
      const GraphBuilder::Scope scope(builder, "pooler");
      x = ops::mean_pool(builder, x, "");
      x = ops::dropout(builder, x, step.sample_ids, step.training ? config_.dropout : 0, seed_);
    }
    return (*head_)(builder, x);
  }

 private:
  MobilenetConfig config_;
  std::uint64_t seed_;
  std::optional<ConvNorm> stem_, top_;
  std::vector<Block> blocks_;
  std::optional<nn::Projection> head_;
};

}  // namespace

ModelGraph build_mobilenet(const MobilenetConfig& config, const BatchShape& shape, const BuildOptions& options) {
  ModelGraph model;
  GraphBuilder builder(model.graph);
  add_vision_passes(model, builder, Mobilenet(builder, config, options), shape, {config.channels}, options);
  return model;
}

}  // namespace plimsoll
