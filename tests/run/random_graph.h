// Random networks over the ops of the catalogue: an embedding, repeated blocks of random layers (residual sums, views, dropout,
// attention, products), a norm and a chunked loss; trained with a random optimizer, in fp32 or with products in bf16 or fp16,
// with some of its parameters frozen. A seed determines a network.
#pragma once

#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/frozen_base.h"
#include "autodiff/precision.h"
#include "autodiff/training.h"
#include "graph/builder.h"
#include "ops/attention/attention.h"
#include "ops/batch_norm/batch_norm.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/dropout/dropout.h"
#include "ops/elementwise/elementwise.h"
#include "ops/embedding/embedding.h"
#include "ops/loss/loss.h"
#include "ops/matmul/matmul.h"
#include "ops/norm/norm.h"
#include "ops/shape/shape_ops.h"
#include "ops/statistic/statistic.h"

namespace plimsoll {

struct RandomNetwork {
  Graph graph;
  ValueId tokens, targets, sample_ids, inverse_units;
  TrainingValues training;
  std::int64_t batch = 0, context = 0, vocab = 0;
};

class NetworkMaker {
 public:
  NetworkMaker(unsigned seed, std::int64_t batch) : random_(seed), builder_(network_.graph), seed_(seed) {
    network_.batch = batch;
    network_.context = 1 + pick(9);
    network_.vocab = 5 + pick(300);
    heads_ = 1 + pick(3);
    width_ = heads_ * 4 * (1 + pick(4));
  }

  RandomNetwork make() {
    add_parameters();
    freeze();
    const std::int64_t b = network_.batch, t = network_.context;
    network_.tokens = builder_.add_input("tokens", {DType::i32, Shape{b, t}});
    network_.targets = builder_.add_input("targets", {DType::i32, Shape{b, t}});
    network_.sample_ids = builder_.add_input("sample_ids", {DType::u32, Shape{b, 2}});
    network_.inverse_units = builder_.add_input("inverse_units", {DType::f32, Shape{1}});
    ValueId x = ops::embedding(builder_, network_.tokens, table_, positions_, {}, /*padding=*/-1, "x");
    for (std::size_t i = 0; i < parameters_.size(); ++i) x = block(x, i);
    const GraphBuilder::Scope scope(builder_, "head");
    x = ops::layer_norm(builder_, x, gamma_, beta_, 1e-5);
    const ValueId losses =
        ops::linear_cross_entropy(builder_, x, tied_ ? table_ : head_, network_.targets, network_.inverse_units);
    sort_sections(network_.graph);
    store_base(network_.graph, base());
    network_.training = add_training(network_.graph, losses, optimizer_, 0);
    apply_precision(network_.graph,
                    std::array{DType::f32, DType::f32, DType::bf16, DType::f16}[static_cast<std::size_t>(pick(4))]);
    return std::move(network_);
  }

 private:
  enum class Layer { linear, gelu, relu, dropout, norm, attention, residual, product, views, count };
  using Parameters = std::vector<std::vector<ValueId>>;  // by layer of a block

  std::int64_t pick(std::int64_t below) { return static_cast<std::int64_t>(random_() % static_cast<unsigned>(below)); }

  ValueId parameter(const std::string& name, Shape shape, Initializer::Kind kind = Initializer::Kind::normal) {
    return builder_.add_parameter(name, std::move(shape), {kind, 0.2});
  }

  std::vector<ValueId> parameters_of(Layer layer, const std::string& name) {
    switch (layer) {
      case Layer::linear: return {parameter(name + ".w", {width_, width_}), parameter(name + ".b", Shape{width_})};
      case Layer::attention: return {parameter(name + ".w", {width_, 3 * width_}), parameter(name + ".b", Shape{3 * width_})};
      case Layer::norm:
        return {parameter(name + ".g", Shape{width_}, Initializer::Kind::ones), parameter(name + ".b", Shape{width_})};
      default: return {};
    }
  }

  void add_parameters() {
    tied_ = pick(2) == 0;
    table_ = parameter("table", {network_.vocab, width_});
    positions_ = parameter("positions", {network_.context, width_});
    if (!tied_) head_ = parameter("head.w", {network_.vocab, width_});
    const std::int64_t layers = 1 + pick(7), blocks = 1 + pick(4);
    for (std::int64_t i = 0; i < layers; ++i) layers_.push_back(Layer(pick(static_cast<std::int64_t>(Layer::count))));
    for (std::int64_t i = 0; i < blocks; ++i) {
      Parameters all;
      for (std::size_t j = 0; j < layers_.size(); ++j) {
        all.push_back(parameters_of(layers_[j], "b" + std::to_string(i) + ".l" + std::to_string(j)));
      }
      parameters_.push_back(std::move(all));
    }
    gamma_ = parameter("norm.g", Shape{width_}, Initializer::Kind::ones);
    beta_ = parameter("norm.b", Shape{width_});
    using Kind = OptimizerSettings::Kind;
    optimizer_.kind = std::array{Kind::adamw, Kind::sgd, Kind::lion, Kind::adafactor}[static_cast<std::size_t>(pick(4))];
    optimizer_.clip_value = pick(4) == 0 ? 1e-3 : 0;
    optimizer_.momentum = pick(2) != 0;
    optimizer_.clip = pick(2) == 0 ? 0 : 1;
    optimizer_.average_blend = pick(3) == 0 ? 0.1 : 0;
    optimizer_.state = std::array{DType::f32, DType::f32, DType::bf16, DType::u8}[static_cast<std::size_t>(pick(4))];
    optimizer_.seed = seed_;
    optimizer_.gradients = pick(3) == 0 ? DType::bf16 : DType::f32;
    partners_.clear();
    for (std::size_t j = 0; j < layers_.size(); ++j)
      partners_.push_back(static_cast<std::size_t>(pick(static_cast<std::int64_t>(j) + 1)));
  }

  // Among four seeds, one freezes nothing, two freeze some or most parameters, and one freezes all parameters up to some layer.
  void freeze() {
    std::mt19937 random(seed_ + 1000);
    const std::vector<ValueId> parameters = network_.graph.parameters();
    const unsigned kind = seed_ % 4;
    const std::size_t end = random() % parameters.size();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const unsigned draw = random() % 4;
      const bool frozen = kind == 3 ? i < end : kind > 0 && (kind == 1 ? draw == 0 : draw != 0);
      if (frozen && parameters[i] != gamma_) network_.graph.values[parameters[i]].parameter->kind = ParameterKind::frozen;
    }
  }

  // The storage of frozen linear layers.
  FrozenBase base() const {
    constexpr std::array kFormats{BaseFormat::none, BaseFormat::nf4, BaseFormat::bf16, BaseFormat::int8};
    return {kFormats[seed_ / 4 % kFormats.size()], seed_ % 2 == 0};
  }

  ValueId block(ValueId x, std::size_t index) {
    const GraphBuilder::Scope outer(builder_, "b" + std::to_string(index));
    std::vector<ValueId> before{x};  // inputs of the layers
    for (std::size_t j = 0; j < layers_.size(); ++j) {
      const GraphBuilder::Scope inner(builder_, "l" + std::to_string(j));
      x = layer(layers_[j], x, before[partners_[j]], parameters_[index][j]);
      before.push_back(x);
    }
    return x;
  }

  ValueId layer(Layer layer, ValueId x, ValueId partner, const std::vector<ValueId>& p) {
    const std::int64_t b = network_.batch, t = network_.context;
    switch (layer) {
      case Layer::linear: return ops::linear(builder_, x, p[0], p[1], "linear");
      case Layer::gelu: return ops::gelu(builder_, x, "gelu");
      case Layer::relu: return builder_.add1(ops::kRelu, ops::NoAttributes{}, {x}, "relu");
      case Layer::dropout: return ops::dropout(builder_, x, network_.sample_ids, 0.2, seed_);
      case Layer::norm: return ops::layer_norm(builder_, x, p[0], p[1], 1e-5);
      case Layer::attention: {
        const ValueId qkv = ops::linear(builder_, x, p[0], p[1], "qkv");
        return ops::attention(builder_, {qkv}, network_.sample_ids, {}, {.layout = {heads_, heads_}, .dropout = 0.1}, seed_);
      }
      case Layer::residual: return ops::add(builder_, partner, x, "sum");
      case Layer::product: return builder_.add1(ops::kMultiply, ops::NoAttributes{}, {x, partner}, "product");
      case Layer::views: {
        const ValueId flat = ops::reshape(builder_, x, Shape{b * t, width_}, "flat");
        return ops::reshape(builder_, ops::gelu(builder_, flat, "gelu"), Shape{b, t, width_}, "back");
      }
      case Layer::count: break;
    }
    return x;
  }

  std::mt19937 random_;
  RandomNetwork network_;
  GraphBuilder builder_;
  unsigned seed_;
  std::int64_t heads_ = 1, width_ = 4;
  bool tied_ = false;
  ValueId table_, positions_, head_, gamma_, beta_;
  std::vector<Layer> layers_;
  std::vector<std::size_t> partners_;
  std::vector<Parameters> parameters_;
  OptimizerSettings optimizer_;
};

// The begin and the end of other networks: an embedding, and a norm and a chunked loss over its table.
class FramedNetwork {
  RandomNetwork network_;

 public:
  GraphBuilder builder;

  FramedNetwork(std::int64_t batch, std::int64_t context, std::int64_t vocab, std::int64_t width) : builder(network_.graph) {
    network_.batch = batch;
    network_.context = context;
    network_.vocab = vocab;
    table_ = parameter("table", {vocab, width});
    positions_ = parameter("positions", {context, width});
    gamma_ = parameter("norm.g", Shape{width}, Initializer::Kind::ones);
    beta_ = parameter("norm.b", Shape{width});
  }
  FramedNetwork(const FramedNetwork&) = delete;
  FramedNetwork& operator=(const FramedNetwork&) = delete;

  // Must precede `begin`.
  ValueId parameter(const std::string& name, Shape extents, Initializer::Kind kind = Initializer::Kind::normal) {
    return builder.add_parameter(name, std::move(extents), {kind, 0.2});
  }
  ValueId begin() {
    const std::int64_t b = network_.batch, t = network_.context;
    network_.tokens = builder.add_input("tokens", {DType::i32, Shape{b, t}});
    network_.targets = builder.add_input("targets", {DType::i32, Shape{b, t}});
    network_.sample_ids = builder.add_input("sample_ids", {DType::u32, Shape{b, 2}});
    network_.inverse_units = builder.add_input("inverse_units", {DType::f32, Shape{1}});
    return ops::embedding(builder, network_.tokens, table_, positions_, {}, /*padding=*/-1, "x");
  }
  void freeze(ValueId parameter) { builder.graph().values[parameter].parameter->kind = ParameterKind::frozen; }
  void freeze_frame() {
    for (const ValueId parameter : {table_, positions_, gamma_, beta_}) freeze(parameter);
  }
  ValueId sample_ids() const { return network_.sample_ids; }
  ValueId dropout(ValueId x) { return ops::dropout(builder, x, network_.sample_ids, 0.1, 7); }
  RandomNetwork end(ValueId x, const OptimizerSettings& optimizer = {}, DType compute = DType::f32, const FrozenBase& base = {}) {
    const GraphBuilder::Scope scope(builder, "head");
    x = ops::layer_norm(builder, x, gamma_, beta_, 1e-5);
    return train(ops::linear_cross_entropy(builder, x, table_, network_.targets, network_.inverse_units), optimizer, compute,
                 base);
  }
  // The end with an own head, whose logits are kept, and a loss in one piece.
  RandomNetwork end(ValueId x, ValueId weight, ValueId bias) {
    const GraphBuilder::Scope scope(builder, "head");
    x = ops::linear(builder, ops::layer_norm(builder, x, gamma_, beta_, 1e-5), weight, bias, "logits");
    return train(ops::cross_entropy(builder, x, network_.targets, network_.inverse_units, {0.1}));
  }

 private:
  RandomNetwork train(ValueId losses, const OptimizerSettings& optimizer = {}, DType compute = DType::f32,
                      const FrozenBase& base = {}) {
    sort_sections(network_.graph);
    store_base(network_.graph, base);
    network_.training = add_training(network_.graph, losses, optimizer, 0);
    apply_precision(network_.graph, compute);
    return std::move(network_);
  }

  ValueId table_, positions_, gamma_, beta_;
};

struct SkipShape {
  std::int64_t context = 96, vocab = 40, width = 24, depth = 8;
};

// A network without repeated pieces and without cuts at a single value: n layers down and n layers up; each layer up also reads
// the result of its partner.
inline RandomNetwork skip_network(std::int64_t batch, const SkipShape& shape = {}) {
  const auto [context, vocab, width, depth] = shape;
  FramedNetwork frame(batch, context, vocab, width);
  GraphBuilder& builder = frame.builder;
  std::vector<std::pair<ValueId, ValueId>> layers;
  for (std::int64_t i = 0; i < 2 * depth; ++i) {
    const std::string name = "l" + std::to_string(i);
    layers.emplace_back(frame.parameter(name + ".w", {width, width}), frame.parameter(name + ".b", Shape{width}));
  }
  ValueId x = frame.begin();
  std::vector<ValueId> down;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const GraphBuilder::Scope scope(builder, "l" + std::to_string(i));
    x = ops::gelu(builder, ops::linear(builder, x, layers[i].first, layers[i].second, "linear"), "gelu");
    if (i % 3 == 0) x = frame.dropout(x);
    if (i < static_cast<std::size_t>(depth)) {
      down.push_back(x);
    } else {
      x = ops::add(builder, x, down.back(), "skip");
      down.pop_back();
    }
  }
  return frame.end(x);
}

// An unrolled recurrence: all steps share one matrix and also read the input. Two values cross between any two steps, so there
// are no blocks.
inline RandomNetwork unrolled_network(std::int64_t batch) {
  constexpr std::int64_t kContext = 24, kVocab = 40, kWidth = 32;
  constexpr int kSteps = 20;
  FramedNetwork frame(batch, kContext, kVocab, kWidth);
  GraphBuilder& builder = frame.builder;
  const ValueId weight = frame.parameter("w", {kWidth, kWidth}), bias = frame.parameter("b", Shape{kWidth});
  const ValueId x = frame.begin();
  ValueId state = x;
  for (int i = 0; i < kSteps; ++i) {
    const GraphBuilder::Scope scope(builder, "step" + std::to_string(i));
    state = ops::gelu(builder, ops::add(builder, ops::linear(builder, state, weight, bias, "linear"), x, "sum"), "gelu");
    if (i % 4 == 1) state = frame.dropout(state);
  }
  return frame.end(state);
}

// Blocks of a norm, a matrix with a bias, and a residual sum.
class BlockNetwork {
 public:
  FramedNetwork frame;

  BlockNetwork(std::int64_t batch, std::int64_t context, std::int64_t width, bool shared) : frame(batch, context, 40, width) {
    for (int i = 0; i < kBlocks; ++i) {
      const std::string name = "h" + std::to_string(i);
      const ValueId weight = shared && i > 0 ? blocks_[0].weight : frame.parameter(name + ".w", {width, width});
      blocks_.push_back({weight, frame.parameter(name + ".b", Shape{width}),
                         frame.parameter(name + ".norm.g", Shape{width}, Initializer::Kind::ones),
                         frame.parameter(name + ".norm.b", Shape{width})});
    }
  }
  // Each block subtracts a moving mean from its input; the largest magnitudes of the first input are kept. `line`: the
  // subtraction has its own line; without it, a line of the model is in two blocks.
  void follow(bool line) {
    line_ = line;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const std::int64_t width = frame.builder.shape(blocks_[i].bias).last();
      blocks_[i].mean = ops::add_statistic(frame.builder, "h" + std::to_string(i) + ".mean", width);
      if (i == 0) most_ = ops::add_statistic(frame.builder, "most", width);
    }
  }
  // Freezes all parameters except the biases.
  void freeze() {
    frame.freeze_frame();
    for (const Block& block : blocks_) {
      for (const ValueId parameter : {block.weight, block.gamma, block.beta}) frame.freeze(parameter);
    }
  }
  RandomNetwork make(const OptimizerSettings& optimizer = {}, DType compute = DType::f32) {
    GraphBuilder& builder = frame.builder;
    ValueId x = frame.begin();
    if (most_.valid()) ops::follow_magnitude(builder, x, most_);
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      const GraphBuilder::Scope scope(builder, "h" + std::to_string(i));
      if (block.mean.valid()) {
        std::optional<GraphBuilder::Scope> inner;
        if (line_) inner.emplace(builder, "centre");
        ops::follow_mean(builder, x, block.mean);
        x = ops::subtract_mean(builder, x, block.mean, "centred");
      }
      const auto within = [&](const char* part, auto&& make) {
        const GraphBuilder::Scope inner(builder, part);
        return make();
      };
      const ValueId normed = within("norm", [&] { return ops::layer_norm(builder, x, block.gamma, block.beta, 1e-5); });
      const ValueId made = within(
          "fc", [&] { return ops::gelu(builder, ops::linear(builder, normed, block.weight, block.bias, "linear"), "gelu"); });
      x = ops::add(builder, x, frame.dropout(made), "residual");
    }
    return frame.end(x, optimizer, compute);
  }

 private:
  static constexpr int kBlocks = 6;
  struct Block {
    ValueId weight, bias, gamma, beta, mean = {};
  };
  std::vector<Block> blocks_;
  ValueId most_;
  bool line_ = false;
};

// All blocks share one matrix.
inline RandomNetwork shared_network(std::int64_t batch, const OptimizerSettings& optimizer, DType compute) {
  return BlockNetwork(batch, 24, 32, true).make(optimizer, compute);
}

// Large frozen matrices and trained biases.
inline RandomNetwork frozen_network(std::int64_t batch) {
  BlockNetwork network(batch, 8, 512, false);
  network.freeze();
  return network.make();
}

// Blocks with large statistics.
inline RandomNetwork following_network(std::int64_t batch, std::int64_t width, const OptimizerSettings& optimizer, DType compute,
                                       bool line = true) {
  BlockNetwork network(batch, 24, width, false);
  network.follow(line);
  return network.make(optimizer, compute);
}

// Repeated residual blocks of two products, each with a batch norm whose groups are of one sample.
inline RandomNetwork batch_norm_network(std::int64_t batch, std::int64_t width, const OptimizerSettings& optimizer,
                                        DType compute) {
  constexpr std::int64_t kContext = 24, kVocab = 40;
  constexpr int kBlocks = 6;
  struct Half {
    ValueId weight;
    ops::BatchNormLayer norm;
  };
  FramedNetwork frame(batch, kContext, kVocab, width);
  GraphBuilder& builder = frame.builder;
  std::vector<std::array<Half, 2>> blocks;
  for (int i = 0; i < kBlocks; ++i) {
    const auto half = [&](const std::string& name) {
      return Half{frame.parameter(name + ".w", {width, width}),
                  {.gamma = frame.parameter(name + ".g", Shape{width}, Initializer::Kind::ones),
                   .beta = frame.parameter(name + ".b", Shape{width}),
                   .mean = ops::add_statistic(builder, name + ".mean", width),
                   .variance = ops::add_statistic(builder, name + ".variance", width, {Initializer::Kind::ones})}};
    };
    const std::string name = "h" + std::to_string(i);
    blocks.push_back({half(name + ".up"), half(name + ".down")});
  }
  ValueId x = frame.begin();
  for (int i = 0; i < kBlocks; ++i) {
    const GraphBuilder::Scope scope(builder, "h" + std::to_string(i));
    const auto& [up, down] = blocks[static_cast<std::size_t>(i)];
    const auto product = [&](ValueId of, const Half& half, const char* name) {
      return ops::matmul(builder, of, half.weight, {}, name);
    };
    using enum ops::NormActivation;
    const ValueId inner =
        ops::batch_norm(builder, product(x, up, "up"), up.norm, frame.sample_ids(), {}, relu, /*group=*/1, "up.norm");
    x = ops::batch_norm(builder, product(inner, down, "down"), down.norm, frame.sample_ids(), x, silu, /*group=*/1, "down.norm");
  }
  return frame.end(x, optimizer, compute);
}

// Repeated blocks of frozen matrices in a storage format, each with two thin trained matrices.
inline RandomNetwork adapter_network(std::int64_t batch, std::int64_t width, const FrozenBase& base, DType compute = DType::f32,
                                     std::int64_t blocks = 5) {
  constexpr std::int64_t kContext = 12, kVocab = 40, kRank = 4;
  struct Layer {
    ValueId weight, bias, gamma, beta, down, up;
  };
  FramedNetwork frame(batch, kContext, kVocab, width);
  GraphBuilder& builder = frame.builder;
  std::vector<Layer> layers;
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::string name = "b" + std::to_string(i);
    layers.push_back({frame.parameter(name + ".w", {width, width}), frame.parameter(name + ".b", Shape{width}),
                      frame.parameter(name + ".norm.g", Shape{width}, Initializer::Kind::ones),
                      frame.parameter(name + ".norm.b", Shape{width}), frame.parameter(name + ".down", {width, kRank}),
                      frame.parameter(name + ".up", {kRank, width})});
    const Layer& layer = layers.back();
    for (const ValueId parameter : {layer.weight, layer.bias, layer.gamma, layer.beta}) frame.freeze(parameter);
  }
  frame.freeze_frame();
  ValueId x = frame.begin();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const GraphBuilder::Scope scope(builder, "b" + std::to_string(i));
    const ValueId normed = ops::layer_norm(builder, x, layers[i].gamma, layers[i].beta, 1e-5);
    const ValueId frozen = ops::linear(builder, normed, layers[i].weight, layers[i].bias, "linear");
    const ValueId down = ops::matmul(builder, frame.dropout(normed), layers[i].down, {}, "down");
    const ValueId sum = ops::add(builder, frozen, ops::matmul(builder, down, layers[i].up, {}, "up"), "adapted");
    x = ops::add(builder, x, ops::gelu(builder, sum, "gelu"), "sum");
  }
  return frame.end(x, {}, compute, base);
}

// Repeated blocks, and a classifier of each position.
inline RandomNetwork classifier_network(std::int64_t batch, std::int64_t width) {
  constexpr std::int64_t kContext = 16, kClasses = 40, kBlocks = 5;
  FramedNetwork frame(batch, kContext, kClasses, width);
  GraphBuilder& builder = frame.builder;
  std::vector<std::pair<ValueId, ValueId>> blocks;
  for (std::int64_t i = 0; i <= kBlocks; ++i) {
    const std::string name = i < kBlocks ? "b" + std::to_string(i) : "head";
    const std::int64_t outputs = i < kBlocks ? width : kClasses;
    blocks.emplace_back(frame.parameter(name + ".w", {width, outputs}), frame.parameter(name + ".b", Shape{outputs}));
  }
  ValueId x = frame.begin();
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const GraphBuilder::Scope scope(builder, "b" + std::to_string(i));
    const ValueId wide = ops::gelu(builder, ops::linear(builder, x, blocks[i].first, blocks[i].second, "linear"), "gelu");
    x = ops::add(builder, x, frame.dropout(wide), "sum");
  }
  return frame.end(x, blocks.back().first, blocks.back().second);
}

// Two stacks of layers and matrices outside of both. Each layer of the second stack reads the result of the first stack.
inline RandomNetwork stacked_network(std::int64_t batch, std::int64_t context, std::int64_t width) {
  constexpr int kLayers = 6;
  FramedNetwork frame(batch, context, 40, width);
  GraphBuilder& builder = frame.builder;
  const std::string ends[] = {"stem", "neck"};
  std::vector<std::string> names(std::begin(ends), std::end(ends));
  for (const char* stack : {"encoder.", "decoder."}) {
    for (int i = 0; i < kLayers; ++i) names.push_back(stack + std::to_string(i));
  }
  std::map<std::string, std::pair<ValueId, ValueId>> matrices;
  for (const std::string& name : names)
    matrices[name] = {frame.parameter(name + ".w", {width, width}), frame.parameter(name + ".b", Shape{width})};
  const auto linear = [&](const std::string& name, ValueId x) {
    return ops::linear(builder, x, matrices[name].first, matrices[name].second, "linear");
  };
  const auto layer = [&](const std::string& name, ValueId x, ValueId beside) {
    const GraphBuilder::Scope scope(builder, name);
    const ValueId from = beside.valid() ? ops::add(builder, x, beside, "both") : x;
    return ops::add(builder, x, frame.dropout(ops::gelu(builder, linear(name, from), "gelu")), "sum");
  };
  const auto end = [&](const std::string& name, ValueId x) {
    const GraphBuilder::Scope scope(builder, name);
    return linear(name, x);
  };
  const ValueId tokens = frame.begin();
  ValueId x = end(ends[0], tokens);
  for (int i = 0; i < kLayers; ++i) x = layer("encoder." + std::to_string(i), x, {});
  const ValueId memory = x;
  x = tokens;
  for (int i = 0; i < kLayers; ++i) x = layer("decoder." + std::to_string(i), x, memory);
  return frame.end(end(ends[1], x));
}

inline RandomNetwork random_network(unsigned seed, std::int64_t batch) { return NetworkMaker(seed, batch).make(); }

}  // namespace plimsoll
