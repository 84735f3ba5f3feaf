#include "models/gpt2/gpt2.h"

#include <fmt/core.h>

#include <cmath>
#include <utility>

#include "graph/builder.h"
#include "nn/layers.h"
#include "ops/attention/attention.h"
#include "ops/dropout/dropout.h"
#include "ops/elementwise/elementwise.h"
#include "ops/embedding/embedding.h"
#include "ops/loss/loss.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"

namespace plimsoll {
namespace {

// Parameters of one block, and how it is applied.
class Block {
 public:
  Block(GraphBuilder& builder, const Gpt2Config& config, std::int64_t index)
      : name_(fmt::format("h.{}", index)),
        ln_1_(builder, name_ + ".ln_1", config.width, config.layer_norm_epsilon),
        c_attn_(builder, name_ + ".attn.c_attn", config.width, 3 * config.width, config.initializer_range),
        c_proj_(builder, name_ + ".attn.c_proj", config.width, config.width, residual_std(config)),
        ln_2_(builder, name_ + ".ln_2", config.width, config.layer_norm_epsilon),
        c_fc_(builder, name_ + ".mlp.c_fc", config.width, 4 * config.width, config.initializer_range),
        mlp_c_proj_(builder, name_ + ".mlp.c_proj", 4 * config.width, config.width, residual_std(config)) {}

  ValueId operator()(GraphBuilder& builder, ValueId x, ValueId sample_ids, const Gpt2Config& config, bool training,
                     std::uint64_t seed) const {
    const GraphBuilder::Scope scope(builder, name_);
    const auto drop = [&](ValueId value) {
      return ops::dropout(builder, value, sample_ids, training ? config.residual_dropout : 0, seed);
    };
    x = residual(builder, x, "attn", ln_1_, "ln_1", [&](ValueId normed) {
      const ValueId qkv = c_attn_(builder, normed, "c_attn");
      const double p = training ? config.attention_dropout : 0;
      return drop(c_proj_(builder, ops::attention(builder, qkv, sample_ids, config.heads, p, seed), "c_proj"));
    });
    return residual(builder, x, "mlp", ln_2_, "ln_2", [&](ValueId normed) {
      return drop(mlp_c_proj_(builder, ops::gelu(builder, c_fc_(builder, normed, "c_fc"), "gelu"), "c_proj"));
    });
  }

 private:
  // Residual branches start smaller with depth, so that the sum over 2 * layers of them keeps its variance.
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
  nn::LayerNorm ln_1_;
  nn::Linear c_attn_, c_proj_;
  nn::LayerNorm ln_2_;
  nn::Linear c_fc_, mlp_c_proj_;
};

class Gpt2 {
 public:
  Gpt2(GraphBuilder& builder, const Gpt2Config& config, std::uint64_t seed)
      : config_(config),
        seed_(seed),
        wte_(builder.add_parameter("wte.weight", {config.vocab, config.width},
                                   {Initializer::Kind::normal, config.initializer_range})),
        // Positions start at half the spread of tokens, 0.01 beside 0.02, as OpenAI's own code has it (openai/gpt-2,
        // src/model.py).
        wpe_(builder.add_parameter("wpe.weight", {config.context, config.width},
                                   {Initializer::Kind::normal, config.initializer_range / 2})),
        blocks_(make_blocks(builder, config)),
        ln_f_(builder, "ln_f", config.width, config.layer_norm_epsilon) {}

  // Hidden states after the last norm: [batch, tokens, width].
  ValueId hidden(GraphBuilder& builder, ValueId tokens, ValueId sample_ids, bool training) const {
    ValueId x = embed(builder, tokens, sample_ids, training);
    for (const Block& block : blocks_) x = block(builder, x, sample_ids, config_, training, seed_);
    const GraphBuilder::Scope scope(builder, "ln_f");
    return ln_f_(builder, x);
  }

  ValueId losses(GraphBuilder& builder, const Pass& pass, bool training, const ops::LossAttributes& loss) const {
    const ValueId h = hidden(builder, pass.input("tokens"), pass.input("sample_ids"), training);
    const GraphBuilder::Scope scope(builder, "lm_head");
    return ops::linear_cross_entropy(builder, h, wte_, pass.input("targets"), pass.losses.front().scale, loss);
  }

  ValueId logits(GraphBuilder& builder, const Pass& pass) const {
    const ValueId h = hidden(builder, pass.input("tokens"), pass.input("sample_ids"), /*training=*/false);
    const GraphBuilder::Scope scope(builder, "lm_head");
    const ValueId row = builder.add1(ops::kSelectRow, ops::NoAttributes{}, {h, pass.input("position")}, "row");
    return ops::matmul(builder, row, wte_, {.transpose_b = true}, "logits");
  }

 private:
  static std::vector<Block> make_blocks(GraphBuilder& builder, const Gpt2Config& config) {
    std::vector<Block> blocks;
    for (std::int64_t i = 0; i < config.layers; ++i) blocks.emplace_back(builder, config, i);
    return blocks;
  }

  ValueId embed(GraphBuilder& builder, ValueId tokens, ValueId sample_ids, bool training) const {
    const GraphBuilder::Scope scope(builder, "wte");
    const ValueId x = ops::embedding(builder, tokens, wte_, wpe_, "");
    return ops::dropout(builder, x, sample_ids, training ? config_.embedding_dropout : 0, seed_);
  }

  Gpt2Config config_;
  std::uint64_t seed_;
  ValueId wte_, wpe_;
  std::vector<Block> blocks_;
  nn::LayerNorm ln_f_;
};

Pass token_pass(GraphBuilder& builder, std::int64_t batch, std::int64_t tokens, const std::string& prefix) {
  Pass pass{.section = builder.section(), .inputs = {}, .losses = {}, .results = {}};
  const auto add = [&](const char* name, ValueType type) {
    pass.inputs.push_back({name, Scope::pass, builder.add_input(prefix + "." + name, std::move(type))});
  };
  add("tokens", {DType::i32, {batch, tokens}});
  add("targets", {DType::i32, {batch, tokens}});
  add("sample_ids", {DType::u32, {batch, 2}});
  LossTerm loss;
  loss.scale = builder.add_input(prefix + ".inverse_units", {DType::f32, Shape{1}});
  pass.losses.push_back(std::move(loss));
  return pass;
}

Pass generate_pass(GraphBuilder& builder, std::int64_t tokens) {
  Pass pass{.section = builder.section(), .inputs = {}, .losses = {}, .results = {}};
  const auto add = [&](const char* name, ValueType type) {
    pass.inputs.push_back({name, Scope::pass, builder.add_input(std::string("generate.") + name, std::move(type))});
  };
  add("tokens", {DType::i32, {1, tokens}});
  add("sample_ids", {DType::u32, {1, 2}});  // no noise is drawn: it only completes the types
  add("position", {DType::i32, Shape{1}});
  return pass;
}

}  // namespace

ModelGraph build_gpt2(const Gpt2Config& config, const BatchShape& shape, const BuildOptions& options) {
  ModelGraph model;
  GraphBuilder builder(model.graph);
  const Gpt2 gpt2(builder, config, options.seed);
  if (shape.evaluate > 0) {
    builder.begin_forward({"evaluate", /*sums=*/true});
    const ValueId total = builder.add_persistent("evaluate.total", {DType::f64, Shape{1}}, Role::output);
    Pass pass = token_pass(builder, shape.evaluate, shape.tokens, "evaluate");
    LossTerm& loss = pass.losses.front();
    loss.losses = gpt2.losses(builder, pass, /*training=*/false, {});
    loss.total = total;
    builder.add1(ops::kSumLosses, ops::NoAttributes{}, {loss.losses, total}, "evaluate.total");
    model.passes.push_back(std::move(pass));
  }
  if (shape.generate) {
    builder.begin_forward({"generate"});
    Pass pass = generate_pass(builder, shape.tokens);
    const ValueId logits = gpt2.logits(builder, pass);
    pass.results.push_back(logits);
    model.graph.values[logits].role = Role::output;
    model.graph.results.push_back(logits);
    model.passes.push_back(std::move(pass));
  }
  // Last, so that what training appends and removes leaves the ids above alone.
  if (shape.micro > 0) {
    builder.set_section(Section::micro);
    Pass pass = token_pass(builder, shape.micro, shape.tokens, "batch");
    pass.losses.front().losses = gpt2.losses(builder, pass, /*training=*/true, options.loss);
    model.passes.push_back(std::move(pass));
  }
  sort_sections(model.graph);
  return model;
}

}  // namespace plimsoll
