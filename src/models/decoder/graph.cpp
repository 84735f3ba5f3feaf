#include <fmt/core.h>

#include <optional>
#include <utility>

#include "graph/builder.h"
#include "models/decoder/decoder.h"
#include "models/language_model.h"
#include "nn/layers.h"
#include "ops/elementwise/elementwise.h"
#include "ops/embedding/embedding.h"
#include "ops/rms_norm/rms_norm.h"

namespace plimsoll {
namespace {

struct RmsNorm {
  std::string name;
  ValueId weight;
  double epsilon = 0;

  RmsNorm(GraphBuilder& builder, const std::string& block, std::string name, std::int64_t width, double epsilon)
      : name(std::move(name)),
        weight(builder.add_parameter(block + this->name + ".weight", {width}, {Initializer::Kind::ones, 0})),
        epsilon(epsilon) {}

  ValueId operator()(GraphBuilder& builder, ValueId x) const {
    const GraphBuilder::Scope scope(builder, name);
    return ops::rms_norm(builder, x, weight, epsilon);
  }
};

ops::RotaryAttributes rotary_of(const DecoderConfig& config, std::int64_t length) {
  ops::RotaryAttributes rope = config.rope;
  rope.head_size = config.head_size;
  rope.rotated = config.head_size;
  rope.most = config.context;
  rope.length = length;
  return rope;
}

class Block {
 public:
  Block(GraphBuilder& builder, const DecoderConfig& c, std::int64_t index)
      : line_(fmt::format("model.layers.{}", index)),
        layer_(index),
        input_norm_(builder, line_ + ".", "input_layernorm", c.width, c.norm_epsilon),
        q_(builder, line_ + ".self_attn.", "q_proj", c.width, c.heads * c.head_size, c.qkv_bias, c.initializer_range),
        k_(builder, line_ + ".self_attn.", "k_proj", c.width, c.kv_heads * c.head_size, c.qkv_bias, c.initializer_range),
        v_(builder, line_ + ".self_attn.", "v_proj", c.width, c.kv_heads * c.head_size, c.qkv_bias, c.initializer_range),
        o_(builder, line_ + ".self_attn.", "o_proj", c.heads * c.head_size, c.width, c.output_bias, c.initializer_range) {
    if (c.head_norms) {
      q_norm_.emplace(builder, line_ + ".self_attn.", "q_norm", c.head_size, c.norm_epsilon);
      k_norm_.emplace(builder, line_ + ".self_attn.", "k_norm", c.head_size, c.norm_epsilon);
    }
    post_norm_.emplace(builder, line_ + ".", "post_attention_layernorm", c.width, c.norm_epsilon);
    gate_.emplace(builder, line_ + ".mlp.", "gate_proj", c.width, c.mlp_width, c.mlp_bias, c.initializer_range);
    up_.emplace(builder, line_ + ".mlp.", "up_proj", c.width, c.mlp_width, c.mlp_bias, c.initializer_range);
    down_.emplace(builder, line_ + ".mlp.", "down_proj", c.mlp_width, c.width, c.mlp_bias, c.initializer_range);
  }

  ValueId operator()(GraphBuilder& builder, ValueId x, const TokenStep& step, const DecoderConfig& config,
                     std::uint64_t seed) const {
    const GraphBuilder::Scope scope(builder, line_);
    x = attention(builder, x, step, config, seed);
    const ValueId normed = (*post_norm_)(builder, x);
    const GraphBuilder::Scope mlp(builder, "mlp");
    const ValueId gate = (*gate_)(builder, normed), up = (*up_)(builder, normed);
    return ops::add(builder, x, (*down_)(builder, ops::gated(builder, gate, up, config.activation, "gated")), "residual");
  }

 private:
  ValueId attention(GraphBuilder& builder, ValueId x, const TokenStep& step, const DecoderConfig& config,
                    std::uint64_t seed) const {
    const ValueId normed = input_norm_(builder, x);
    const GraphBuilder::Scope scope(builder, "self_attn");
    const ops::RotaryAttributes rope = rotary_of(config, step.length);
    ValueId q = q_(builder, normed), k = k_(builder, normed);
    if (q_norm_) q = (*q_norm_)(builder, q), k = (*k_norm_)(builder, k);
    q = ops::rotary(builder, q, step.positions, rope, "q");
    k = ops::rotary(builder, k, step.positions, rope, "k");
    AttentionParts parts{.qkv = {q, k, v_(builder, normed)},
                         .layout = {.heads = config.heads, .kv_heads = config.kv_heads, .separate = true},
                         .window = config.window_of(layer_),
                         .dropout = config.attention_dropout};
    const ValueId attended = attend(builder, std::move(parts), step, static_cast<std::size_t>(layer_), seed);
    return ops::add(builder, x, o_(builder, attended), "residual");
  }

  std::string line_;
  std::int64_t layer_;
  RmsNorm input_norm_;
  nn::Projection q_, k_, v_, o_;
  std::optional<RmsNorm> q_norm_, k_norm_, post_norm_;
  std::optional<nn::Projection> gate_, up_, down_;
};

class Decoder final : public LanguageModel {
 public:
  Decoder(GraphBuilder& builder, const DecoderConfig& config, std::uint64_t seed)
      : config_(config),
        seed_(seed),
        table_(builder.add_parameter("model.embed_tokens.weight", {config.vocab, config.width},
                                     {Initializer::Kind::normal, config.initializer_range})) {
    for (std::int64_t i = 0; i < config.layers; ++i) blocks_.emplace_back(builder, config, i);
    norm_.emplace(builder, "model.", "norm", config.width, config.norm_epsilon);
    head_ = config.tied ? table_
                        : builder.add_parameter("lm_head.weight", {config.vocab, config.width},
                                                {Initializer::Kind::normal, config.initializer_range});
  }

  ValueId hidden(GraphBuilder& builder, const TokenStep& step) const override {
    ValueId x;
    {
      const GraphBuilder::Scope scope(builder, "model.embed_tokens");
      x = ops::embedding(builder, step.tokens, table_, {}, {}, config_.padding, "");
    }
    for (const Block& block : blocks_) x = block(builder, x, step, config_, seed_);
    const GraphBuilder::Scope scope(builder, "model");
    return (*norm_)(builder, x);
  }

  ValueId head() const override { return head_; }

  std::vector<LayerCacheShape> caches() const override {
    std::vector<LayerCacheShape> caches;
    for (std::int64_t i = 0; i < config_.layers; ++i) {
      caches.push_back({config_.kv_heads * config_.head_size, config_.window_of(i)});
    }
    return caches;
  }

 private:
  DecoderConfig config_;
  std::uint64_t seed_;
  ValueId table_, head_;
  std::vector<Block> blocks_;
  std::optional<RmsNorm> norm_;
};

}  // namespace

std::int64_t DecoderConfig::window_of(std::int64_t layer) const {
  const bool full = !windowed.empty() && windowed[static_cast<std::size_t>(layer)] == 'f';
  return full ? 0 : window;
}

ModelGraph build_decoder(const DecoderConfig& config, const BatchShape& shape, const BuildOptions& options) {
  ModelGraph model;
  GraphBuilder builder(model.graph);
  add_language_passes(model, builder, Decoder(builder, config.settled(), options.seed), shape, options);
  return model;
}

}  // namespace plimsoll
