// Networks other than a row of blocks with one loss: several losses, values that live longer than both passes of their block.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "run/random_graph.h"

namespace plimsoll {

struct UnusualShape {
  bool auxiliary = false;  // a second loss after half of the blocks
  bool gathered = false;   // the head also reads a value from inside each block
  std::int64_t width = 16;
  int blocks = 6;
};

class UnusualNetwork {
  static constexpr std::int64_t kContext = 8, kVocab = 40;

 public:
  UnusualNetwork(std::int64_t batch, const UnusualShape& shape) : builder_(network_.graph) {
    network_.batch = batch;
    network_.context = kContext;
    network_.vocab = kVocab;
    const std::int64_t width = shape.width;
    table_ = parameter("table", {kVocab, width});
    positions_ = parameter("positions", {kContext, width});
    auxiliary_ = shape.auxiliary ? parameter("auxiliary.w", {kVocab, width}) : ValueId{};
    for (int i = 0; i < shape.blocks; ++i) {
      const std::string name = "b" + std::to_string(i);
      blocks_.push_back({parameter(name + ".up.w", {width, 4 * width}), parameter(name + ".up.b", Shape{4 * width}),
                         parameter(name + ".down.w", {4 * width, width}), parameter(name + ".down.b", Shape{width})});
    }
    build(shape);
  }
  RandomNetwork take() { return std::move(network_); }

 private:
  ValueId parameter(const std::string& name, Shape shape) {
    return builder_.add_parameter(name, std::move(shape), {Initializer::Kind::normal, 0.2});
  }

  void build(const UnusualShape& shape) {
    const std::int64_t b = network_.batch;
    network_.tokens = builder_.add_input("tokens", {DType::i32, Shape{b, kContext}});
    network_.targets = builder_.add_input("targets", {DType::i32, Shape{b, kContext}});
    network_.sample_ids = builder_.add_input("sample_ids", {DType::u32, Shape{b, 2}});
    network_.inverse_units = builder_.add_input("inverse_units", {DType::f32, Shape{1}});
    ValueId x = ops::embedding(builder_, network_.tokens, table_, positions_, {}, /*padding=*/-1, "x");
    std::vector<LossRoot> losses;
    for (int i = 0; i < shape.blocks; ++i) {
      const GraphBuilder::Scope scope(builder_, "b" + std::to_string(i));
      const auto& [up_w, up_b, down_w, down_b] = blocks_[static_cast<std::size_t>(i)];
      const ValueId up = ops::gelu(builder_, ops::linear(builder_, x, up_w, up_b, "up"), "gelu");
      const ValueId down = ops::linear(builder_, up, down_w, down_b, "down");
      x = ops::add(builder_, x, ops::dropout(builder_, down, network_.sample_ids, 0.1, 5), "sum");
      inner_.push_back(down);
      if (shape.auxiliary && i == shape.blocks / 2) {
        const GraphBuilder::Scope head(builder_, "auxiliary");
        losses.push_back({ops::linear_cross_entropy(builder_, x, auxiliary_, network_.targets, network_.inverse_units),
                          "loss.auxiliary.total"});
      }
    }
    const GraphBuilder::Scope scope(builder_, "head");
    if (shape.gathered) {
      for (std::size_t i = 0; i < inner_.size(); ++i) x = ops::add(builder_, x, inner_[i], "gathered." + std::to_string(i));
    }
    losses.insert(losses.begin(),
                  {ops::linear_cross_entropy(builder_, x, table_, network_.targets, network_.inverse_units), "loss.total"});
    sort_sections(network_.graph);
    network_.training = add_training(network_.graph, losses, {}, 0);
  }

  struct Block {
    ValueId up_w, up_b, down_w, down_b;
  };
  RandomNetwork network_;
  GraphBuilder builder_;
  ValueId table_, positions_, auxiliary_;
  std::vector<Block> blocks_;
  std::vector<ValueId> inner_;
};

inline RandomNetwork unusual_network(std::int64_t batch, const UnusualShape& shape) {
  return UnusualNetwork(batch, shape).take();
}

}  // namespace plimsoll
