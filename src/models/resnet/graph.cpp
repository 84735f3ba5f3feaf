#include <fmt/core.h>

#include <optional>
#include <utility>
#include <vector>

#include "models/conv_norm.h"
#include "models/resnet/resnet.h"
#include "ops/pooling/pooling.h"

namespace plimsoll {
namespace {

using ops::NormActivation;

NormActivation activation_of(const ResnetConfig& config) {
  switch (config.activation) {
    case ResnetConfig::Activation::relu: return NormActivation::relu;
    case ResnetConfig::Activation::relu6: return NormActivation::relu6;
    case ResnetConfig::Activation::silu: return NormActivation::silu;
  }
  return NormActivation::relu;
}

// The names of a block's layers.
class BlockNames {
 public:
  BlockNames(bool timm, std::size_t stage, std::int64_t index)
      : timm_(timm),
        block_(timm ? fmt::format("layer{}.{}.", stage + 1, index)
                    : fmt::format("resnet.encoder.stages.{}.layers.{}.", stage, index)) {}

  ConvNormNames layer(int i) const {
    if (timm_) return {fmt::format("{}conv{}", block_, i + 1), fmt::format("{}bn{}", block_, i + 1)};
    return {fmt::format("{}layer.{}.convolution", block_, i), fmt::format("{}layer.{}.normalization", block_, i)};
  }
  ConvNormNames shortcut() const {
    if (timm_) return {block_ + "downsample.0", block_ + "downsample.1"};
    return {block_ + "shortcut.convolution", block_ + "shortcut.normalization"};
  }

 private:
  bool timm_;
  std::string block_;
};

class Block {
 public:
  Block(GraphBuilder& builder, const ResnetConfig& config, const BlockNames& names, std::int64_t channels, std::int64_t outputs,
        std::int64_t stride, const NormOptions& norm)
      : activation_(activation_of(config)) {
    const auto add = [&](std::int64_t from, std::int64_t to, std::int64_t kernel, std::int64_t step) {
      const ConvNormShape shape{.channels = from, .outputs = to, .kernel = kernel, .stride = step};
      layers_.emplace_back(builder, names.layer(static_cast<int>(layers_.size())), shape, norm);
    };
    if (channels != outputs || stride != 1) {
      const ConvNormShape shape{.channels = channels, .outputs = outputs, .kernel = 1, .stride = stride};
      shortcut_.emplace(builder, names.shortcut(), shape, norm);
    }
    if (config.layer == ResnetConfig::Layer::basic) {
      add(channels, outputs, 3, stride);
      add(outputs, outputs, 3, 1);
      return;
    }
    const std::int64_t inner = outputs / 4;
    add(channels, inner, 1, config.stride_first ? stride : 1);
    add(inner, inner, 3, config.stride_first ? 1 : stride);
    add(inner, outputs, 1, 1);
  }

  ValueId operator()(GraphBuilder& builder, ValueId x, const ImageStep& step) const {
    const ValueId residual = shortcut_ ? (*shortcut_)(builder, x, step, NormActivation::none) : x;
    for (std::size_t i = 0; i + 1 < layers_.size(); ++i) x = layers_[i](builder, x, step, NormActivation::relu);
    return layers_.back()(builder, x, step, activation_, residual);
  }

 private:
  NormActivation activation_;
  std::optional<ConvNorm> shortcut_;
  std::vector<ConvNorm> layers_;
};

class Resnet final : public VisionModel {
 public:
  Resnet(GraphBuilder& builder, const ResnetConfig& config, const NormOptions& norm) : config_(config) {
    const bool cifar = config.stem == ResnetConfig::Stem::cifar;
    const ConvNormNames names =
        config.timm ? ConvNormNames{"conv1", "bn1"}
                    : ConvNormNames{"resnet.embedder.embedder.convolution", "resnet.embedder.embedder.normalization"};
    const ConvNormShape shape{
        .channels = config.channels, .outputs = config.stem_width, .kernel = cifar ? 3 : 7, .stride = cifar ? 1 : 2};
    stem_.emplace(builder, names, shape, norm);
    std::int64_t channels = config.stem_width;
    for (std::size_t stage = 0; stage < config.depths.size(); ++stage) {
      for (std::int64_t i = 0; i < config.depths[stage]; ++i) {
        const bool halves = i == 0 && (stage > 0 || config.stride_in_first_stage);
        blocks_.emplace_back(builder, config, BlockNames(config.timm, stage, i), channels, config.widths[stage], halves ? 2 : 1,
                             norm);
        channels = config.widths[stage];
      }
    }
    head_ = class_head(builder, config.timm ? "fc" : "classifier.1", channels, config.classes, config.head == Head::fresh);
  }

  ValueId logits(GraphBuilder& builder, const ImageStep& step) const override {
    ValueId x = (*stem_)(builder, step.pixels, step, activation_of(config_));
    if (config_.stem == ResnetConfig::Stem::imagenet) {
      const GraphBuilder::Scope scope(builder, config_.timm ? "maxpool" : "resnet.embedder.pooler");
      x = ops::max_pool(builder, x, {.kernel_h = 3, .kernel_w = 3, .window = ops::square_window(2, 1)}, "");
    }
    for (const Block& block : blocks_) x = block(builder, x, step);
    {
      const GraphBuilder::Scope scope(builder, config_.timm ? "global_pool" : "resnet.pooler");
      x = ops::mean_pool(builder, x, "");
    }
    return (*head_)(builder, x);
  }

 private:
  ResnetConfig config_;
  std::optional<ConvNorm> stem_;
  std::vector<Block> blocks_;
  std::optional<nn::Projection> head_;
};

}  // namespace

ModelGraph build_resnet(const ResnetConfig& config, const BatchShape& shape, const BuildOptions& options) {
  ModelGraph model;
  GraphBuilder builder(model.graph);
  add_vision_passes(model, builder, Resnet(builder, config, options.norm), shape, {config.channels}, options);
  return model;
}

}  // namespace plimsoll
