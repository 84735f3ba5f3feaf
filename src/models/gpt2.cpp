#include "models/gpt2.h"

#include <fmt/format.h>

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

  ValueId losses(GraphBuilder& builder, const BatchValues& batch, bool training, const ops::LossAttributes& loss) const {
    const ValueId h = hidden(builder, batch.tokens, batch.sample_ids, training);
    const GraphBuilder::Scope scope(builder, "lm_head");
    return ops::linear_cross_entropy(builder, h, wte_, batch.targets, batch.inverse_units, loss);
  }

  ValueId logits(GraphBuilder& builder, const GenerateValues& values) const {
    const ValueId h = hidden(builder, values.tokens, values.sample_ids, /*training=*/false);
    const GraphBuilder::Scope scope(builder, "lm_head");
    const ValueId row = builder.add1(ops::kSelectRow, ops::NoAttributes{}, {h, values.position}, "row");
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

BatchValues add_batch(GraphBuilder& builder, std::int64_t batch, std::int64_t tokens, const std::string& prefix) {
  BatchValues values;
  values.tokens = builder.add_input(prefix + ".tokens", {DType::i32, {batch, tokens}});
  values.targets = builder.add_input(prefix + ".targets", {DType::i32, {batch, tokens}});
  values.sample_ids = builder.add_input(prefix + ".sample_ids", {DType::u32, {batch, 2}});
  values.inverse_units = builder.add_input(prefix + ".inverse_units", {DType::f32, Shape{1}});
  return values;
}

}  // namespace

ModelGraph build_gpt2(const Gpt2Config& config, const BatchShape& shape, std::uint64_t seed, const ops::LossAttributes& loss) {
  ModelGraph model;
  GraphBuilder builder(model.graph);
  const Gpt2 gpt2(builder, config, seed);
  if (shape.evaluate > 0) {
    builder.set_section(Section::evaluate);
    model.evaluate_total = builder.add_persistent("evaluate.total", {DType::f64, Shape{1}}, Role::output);
    model.evaluate = add_batch(builder, shape.evaluate, shape.tokens, "evaluate");
    const ValueId losses = gpt2.losses(builder, model.evaluate, /*training=*/false, {});
    builder.add1(ops::kSumLosses, ops::NoAttributes{}, {losses, model.evaluate_total}, "evaluate.total");
  }
  if (shape.generate) {
    builder.set_section(Section::generate);
    model.generate.tokens = builder.add_input("generate.tokens", {DType::i32, {1, shape.tokens}});
    model.generate.sample_ids = builder.add_input("generate.sample_ids", {DType::u32, {1, 2}});
    model.generate.position = builder.add_input("generate.position", {DType::i32, Shape{1}});
    model.generate.logits = gpt2.logits(builder, model.generate);
    model.graph.values[model.generate.logits].role = Role::output;
    model.graph.results.push_back(model.generate.logits);
  }
  // Last, so that what training appends and removes leaves the ids above alone.
  if (shape.micro > 0) {
    builder.set_section(Section::micro);
    model.micro = add_batch(builder, shape.micro, shape.tokens, "batch");
    model.losses = gpt2.losses(builder, model.micro, /*training=*/true, loss);
  }
  sort_sections(model.graph);
  return model;
}

namespace {

struct Preset {
  std::string_view name;
  std::int64_t layers, width, heads, context, vocab;
};

constexpr Preset kPresets[] = {{"gpt2", 12, 768, 12, 1024, 50257},        {"gpt2-medium", 24, 1024, 16, 1024, 50257},
                               {"gpt2-large", 36, 1280, 20, 1024, 50257}, {"gpt2-xl", 48, 1600, 25, 1024, 50257},
                               {"byte-3m", 4, 256, 4, 256, 256},          {"byte-10m", 6, 384, 6, 256, 256}};

}  // namespace

std::vector<std::string_view> gpt2_preset_names() {
  std::vector<std::string_view> names;
  for (const Preset& preset : kPresets) names.push_back(preset.name);
  return names;
}

Gpt2Config gpt2_preset(std::string_view name) {
  std::string known;
  for (const Preset& preset : kPresets) {
    known += (known.empty() ? "" : ", ") + std::string(preset.name);
    if (preset.name != name) continue;
    Gpt2Config config;
    config.layers = preset.layers;
    config.width = preset.width;
    config.heads = preset.heads;
    config.context = preset.context;
    config.vocab = preset.vocab;
    config.byte_vocabulary = preset.vocab == 256;
    return config;
  }
  throw config_error("E-CONFIG-PRESET", "model.preset", fmt::format("'{}' is not a preset", name), "one of " + known,
                     {"plimsoll init gpt2"});
}

std::int64_t parameter_count(const Graph& graph) {
  std::int64_t count = 0;
  for (const ValueId id : graph.parameters()) count += graph.values[id].type.shape.elements();
  return count;
}

}  // namespace plimsoll
