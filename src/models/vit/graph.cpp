#include <fmt/core.h>

#include <optional>
#include <utility>
#include <vector>

#include "graph/builder.h"
#include "models/vision_model.h"
#include "models/vit/vit.h"
#include "nn/layers.h"
#include "ops/attention/attention.h"
#include "ops/class_token/class_token.h"
#include "ops/convolution/convolution.h"
#include "ops/dropout/dropout.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shape/shape_ops.h"

namespace plimsoll {
namespace {

// The names of a block's layers.
struct BlockNames {
  const char *first_norm, *attention, *output, *second_norm, *up, *down;
};
constexpr BlockNames kOfTransformers{"layernorm_before", "attention.attention", "attention.output.dense",
                                     "layernorm_after",  "intermediate.dense",  "output.dense"};
constexpr BlockNames kOfTimm{"norm1", "attn", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2"};

ValueId activate(GraphBuilder& builder, ValueId x, ops::Activation activation) {
  switch (activation) {
    case ops::Activation::silu: return ops::silu(builder, x, "activated");
    case ops::Activation::gelu_tanh: return ops::gelu(builder, x, "activated");
    case ops::Activation::gelu_erf: return ops::gelu_erf(builder, x, "activated");
  }
  return x;
}

ValueId norm(GraphBuilder& builder, const nn::LayerNorm& layer, const char* name, ValueId x) {
  const GraphBuilder::Scope scope(builder, name);
  return layer(builder, x);
}

class Block {
 public:
  Block(GraphBuilder& builder, const VitConfig& c, std::int64_t index)
      : names_(c.timm ? kOfTimm : kOfTransformers),
        line_(fmt::format("{}.{}", c.timm ? "blocks" : "vit.encoder.layer", index)),
        first_norm_(builder, line_ + "." + names_.first_norm, c.width, c.norm_epsilon) {
    const std::string block = line_ + ".";
    if (c.timm) {
      qkv_.emplace_back(builder, block, "attn.qkv", c.width, 3 * c.width, c.qkv_bias, c.initializer_range);
    } else {
      for (const char* part : {"query", "key", "value"}) {
        const std::string name = fmt::format("{}.{}", names_.attention, part);
        qkv_.emplace_back(builder, block, name, c.width, c.width, c.qkv_bias, c.initializer_range);
      }
    }
    output_.emplace(builder, block, names_.output, c.width, c.width, true, c.initializer_range);
    second_norm_.emplace(builder, block + names_.second_norm, c.width, c.norm_epsilon);
    up_.emplace(builder, block, names_.up, c.width, c.mlp_width, true, c.initializer_range);
    down_.emplace(builder, block, names_.down, c.mlp_width, c.width, true, c.initializer_range);
  }

  ValueId operator()(GraphBuilder& builder, ValueId x, const ImageStep& step, const VitConfig& c, std::uint64_t seed) const {
    const GraphBuilder::Scope scope(builder, line_);
    const auto drop = [&](ValueId value, const char* layer) {
      const GraphBuilder::Scope branch(builder, layer);
      return ops::dropout(builder, value, step.sample_ids, step.training ? c.dropout : 0, seed);
    };
    const ValueId attended = attend(builder, norm(builder, first_norm_, names_.first_norm, x), step, c, seed);
    x = ops::add(builder, x, drop(attended, names_.output), "attended");
    const ValueId up = (*up_)(builder, norm(builder, *second_norm_, names_.second_norm, x));
    const ValueId down = (*down_)(builder, activate(builder, up, c.activation));
    return ops::add(builder, x, drop(down, names_.down), "residual");
  }

 private:
  ValueId attend(GraphBuilder& builder, ValueId x, const ImageStep& step, const VitConfig& c, std::uint64_t seed) const {
    std::vector<ValueId> qkv;
    for (const nn::Projection& each : qkv_) qkv.push_back(each(builder, x));
    ops::AttentionAttributes attributes{.layout = {.heads = c.heads, .kv_heads = c.heads, .separate = qkv.size() > 1}};
    attributes.dropout = step.training ? c.attention_dropout : 0;
    attributes.causal = false;
    ValueId attended;
    {
      const GraphBuilder::Scope scope(builder, names_.attention);
      attended = ops::attention(builder, std::move(qkv), step.sample_ids, {}, attributes, seed);
    }
    return (*output_)(builder, attended);
  }

  BlockNames names_;
  std::string line_;
  nn::LayerNorm first_norm_;
  std::vector<nn::Projection> qkv_;  // one for all, or three
  std::optional<nn::Projection> output_;
  std::optional<nn::LayerNorm> second_norm_;
  std::optional<nn::Projection> up_, down_;
};

class Vit final : public VisionModel {
 public:
  Vit(GraphBuilder& builder, const VitConfig& c, std::uint64_t seed)
      : config_(c),
        seed_(seed),
        token_(builder.add_parameter(c.timm ? "cls_token" : "vit.embeddings.cls_token", {1, 1, c.width}, normal())),
        positions_(builder.add_parameter(c.timm ? "pos_embed" : "vit.embeddings.position_embeddings",
                                         {1, c.patches() + 1, c.width}, normal())) {
    const std::string projection = c.timm ? "patch_embed.proj" : "vit.embeddings.patch_embeddings.projection";
    patches_ = builder.add_parameter(projection + ".weight", {.shape = {c.patch * c.patch * c.channels, c.width},
                                                              .initializer = normal(),
                                                              .in_files = Shape{c.width, c.channels, c.patch, c.patch}});
    patch_bias_ = builder.add_parameter(projection + ".bias", {c.width}, {});
    for (std::int64_t i = 0; i < c.layers; ++i) blocks_.emplace_back(builder, c, i);
    norm_.emplace(builder, c.timm ? "norm" : "vit.layernorm", c.width, c.norm_epsilon);
    head_.emplace(builder, "", c.timm ? "head" : "classifier", c.width, c.classes, true, c.initializer_range);
    for (const ValueId each : {head_->weight, head_->bias}) builder.mark_head(each, c.head == Head::fresh);
  }

  ValueId logits(GraphBuilder& builder, const ImageStep& step) const override {
    ValueId x = embed(builder, step);
    for (const Block& block : blocks_) x = block(builder, x, step, config_, seed_);
    x = norm(builder, *norm_, config_.timm ? "norm" : "vit.layernorm", x);
    return (*head_)(builder, ops::class_token(builder, x, "class_token"));
  }

 private:
  Initializer normal() const { return {Initializer::Kind::normal, config_.initializer_range}; }

  ValueId embed(GraphBuilder& builder, const ImageStep& step) const {
    const GraphBuilder::Scope scope(builder, config_.timm ? "patch_embed" : "vit.embeddings");
    const ValueId map =
        ops::convolution(builder, step.pixels, patches_, patch_bias_, {.window = ops::square_window(config_.patch)}, "patches");
    const std::int64_t batch = builder.shape(map)[0];
    const ValueId rows = ops::reshape(builder, map, {batch, config_.patches(), config_.width}, "rows");
    const ValueId x = ops::place_tokens(builder, rows, token_, positions_, "placed");
    return ops::dropout(builder, x, step.sample_ids, step.training ? config_.dropout : 0, seed_);
  }

  VitConfig config_;
  std::uint64_t seed_;
  ValueId token_, positions_, patches_, patch_bias_;
  std::vector<Block> blocks_;
  std::optional<nn::LayerNorm> norm_;
  std::optional<nn::Projection> head_;
};

}  // namespace

ModelGraph build_vit(const VitConfig& config, const BatchShape& shape, const BuildOptions& options) {
  ModelGraph model;
  GraphBuilder builder(model.graph);
  add_vision_passes(model, builder, Vit(builder, config, options.seed), shape, {config.channels, config.size}, options);
  return model;
}

}  // namespace plimsoll
