#include "models/gpt2/gpt2.h"

#include <fmt/core.h>

#include <cmath>
#include <utility>

#include "graph/builder.h"
#include "models/language_model.h"
#include "nn/layers.h"
#include "ops/dropout/dropout.h"
#include "ops/elementwise/elementwise.h"
#include "ops/embedding/embedding.h"

namespace plimsoll {
namespace {

// The parameters of one block, and its application.
class Block {
 public:
  Block(GraphBuilder& builder, const Gpt2Config& config, std::int64_t index)
      : name_(fmt::format("h.{}", index)),
        layer_(static_cast<std::size_t>(index)),
        ln_1_(builder, name_ + ".ln_1", config.width, config.layer_norm_epsilon),
        c_attn_(builder, name_ + ".attn.c_attn", config.width, 3 * config.width, config.initializer_range),
        c_proj_(builder, name_ + ".attn.c_proj", config.width, config.width, residual_std(config)),
        ln_2_(builder, name_ + ".ln_2", config.width, config.layer_norm_epsilon),
        c_fc_(builder, name_ + ".mlp.c_fc", config.width, 4 * config.width, config.initializer_range),
        mlp_c_proj_(builder, name_ + ".mlp.c_proj", 4 * config.width, config.width, residual_std(config)) {}

  ValueId operator()(GraphBuilder& builder, ValueId x, const TokenStep& step, const Gpt2Config& config,
                     std::uint64_t seed) const {
    const GraphBuilder::Scope scope(builder, name_);
    const auto drop = [&](ValueId value) {
      return ops::dropout(builder, value, step.sample_ids, step.training ? config.residual_dropout : 0, seed);
    };
    x = residual(builder, x, "attn", ln_1_, "ln_1", [&](ValueId normed) {
      const ValueId qkv = c_attn_(builder, normed, "c_attn");
      return drop(c_proj_(builder, attended(builder, qkv, step, config, seed), "c_proj"));
    });
    return residual(builder, x, "mlp", ln_2_, "ln_2", [&](ValueId normed) {
      return drop(mlp_c_proj_(builder, ops::gelu(builder, c_fc_(builder, normed, "c_fc"), "gelu"), "c_proj"));
    });
  }

 private:
  ValueId attended(GraphBuilder& builder, ValueId qkv, const TokenStep& step, const Gpt2Config& config,
                   std::uint64_t seed) const {
    AttentionParts parts{
        .qkv = {qkv}, .layout = {.heads = config.heads, .kv_heads = config.heads}, .dropout = config.attention_dropout};
    return attend(builder, std::move(parts), step, layer_, seed);
  }

  // Residual branches start smaller with depth: the sum over 2 * layers of them keeps its variance.
  static double residual_std(const Gpt2Config& config) {
    return config.initializer_range / std::sqrt(2.0 * static_cast<double>(config.layers));
  }

  template <class Branch>
  static ValueId residual(GraphBuilder& builder, ValueId x, const char* part, const nn::LayerNorm& norm, const char* norm_name,
                          const Branch& branch) {
    ValueId normed;
    {
      const GraphBuilder::Scope scope(builder, norm_name);
      normed = norm(builder, x);
    }
    const GraphBuilder::Scope scope(builder, part);
    return ops::add(builder, x, branch(normed), "residual");
  }

  std::string name_;
  std::size_t layer_;
  nn::LayerNorm ln_1_;
  nn::Linear c_attn_, c_proj_;
  nn::LayerNorm ln_2_;
  nn::Linear c_fc_, mlp_c_proj_;
};

class Gpt2 final : public LanguageModel {
 public:
  Gpt2(GraphBuilder& builder, const Gpt2Config& config, std::uint64_t seed)
      : config_(config),
        seed_(seed),
        wte_(builder.add_parameter("wte.weight", {config.vocab, config.width},
                                   {Initializer::Kind::normal, config.initializer_range})),
        // Positions start at half the spread of tokens, 0.01 instead of 0.02, as in OpenAI's code (openai/gpt-2, src/model.py).
        wpe_(builder.add_parameter("wpe.weight", {config.context, config.width},
                                   {Initializer::Kind::normal, config.initializer_range / 2})),
        blocks_(make_blocks(builder, config)),
        ln_f_(builder, "ln_f", config.width, config.layer_norm_epsilon),
        head_(config.tied ? wte_
                          : builder.add_parameter("lm_head.weight", {config.vocab, config.width},
                                                  {Initializer::Kind::normal, config.initializer_range})) {}

  // Hidden states after the last norm: [batch, tokens, width].
  ValueId hidden(GraphBuilder& builder, const TokenStep& step) const override {
    ValueId x = embed(builder, step);
    for (const Block& block : blocks_) x = block(builder, x, step, config_, seed_);
    const GraphBuilder::Scope scope(builder, "ln_f");
    return ln_f_(builder, x);
  }

  ValueId head() const override { return head_; }
  std::vector<LayerCacheShape> caches() const override {
    return std::vector<LayerCacheShape>(blocks_.size(), {config_.width, 0});
  }

 private:
  static std::vector<Block> make_blocks(GraphBuilder& builder, const Gpt2Config& config) {
    std::vector<Block> blocks;
    for (std::int64_t i = 0; i < config.layers; ++i) blocks.emplace_back(builder, config, i);
    return blocks;
  }

  ValueId embed(GraphBuilder& builder, const TokenStep& step) const {
    const GraphBuilder::Scope scope(builder, "wte");
    const ValueId sum = ops::embedding(builder, step.tokens, wte_, wpe_, step.positions, /*padding=*/-1, "");
    return ops::dropout(builder, sum, step.sample_ids, step.training ? config_.embedding_dropout : 0, seed_);
  }

  Gpt2Config config_;
  std::uint64_t seed_;
  ValueId wte_, wpe_;
  std::vector<Block> blocks_;
  nn::LayerNorm ln_f_;
  ValueId head_;
};

}  // namespace

ModelGraph build_gpt2(const Gpt2Config& config, const BatchShape& shape, const BuildOptions& options) {
  ModelGraph model;
  GraphBuilder builder(model.graph);
  add_language_passes(model, builder, Gpt2(builder, config, options.seed), shape, options);
  return model;
}

}  // namespace plimsoll
