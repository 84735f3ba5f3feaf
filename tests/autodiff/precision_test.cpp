// The values of a training graph that the precision pass rounds, and the resulting change of the gradients.
#include "autodiff/precision.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/small_gpt2.h"
#include "ops/cast/cast.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gated/gated.h"
#include "ops/loss/loss.h"
#include "ops/matmul/matmul.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rotary/rotary.h"

namespace plimsoll {
void PrintTo(DType dtype, std::ostream* out) { *out << name(dtype); }
}  // namespace plimsoll

namespace plimsoll::test {
namespace {

std::vector<std::size_t> inputs_of(std::vector<std::size_t> (*rule)(const Attributes&), const Node& node) {
  return rule == nullptr ? std::vector<std::size_t>{} : rule(node.attributes);
}
bool contains(const std::vector<std::size_t>& inputs, std::size_t input) {
  return std::find(inputs.begin(), inputs.end(), input) != inputs.end();
}

TEST(Precision, InFp32NothingChanges) {
  const Model model(small_config(0.1));
  Graph graph = model.training.graph;
  apply_precision(graph, DType::f32);
  EXPECT_EQ(graph_hash(graph), graph_hash(model.training.graph));
}

// Operands of products are rounded where they are computed, or once before the first product. Weights are rounded once more for
// the backward pass.
TEST(Precision, RoundsWhatProductsRead) {
  Model model(small_config(0.1));
  Graph& graph = model.training.graph;
  apply_precision(graph, DType::bf16);
  std::map<std::pair<ValueId, bool>, int> casts;  // of what, and in which pass
  std::size_t products = 0;
  for (const NodeId id : graph.order) {
    const Node& node = graph.nodes[id];
    if (node.op == &ops::kCast) {
      ++casts[{node.inputs[0], node.backward}];
      EXPECT_NE(node.section, Section::update);
      continue;
    }
    const std::vector<std::size_t> narrow = inputs_of(node.op->narrow, node), either = inputs_of(node.op->either, node);
    products += narrow.empty() ? 0 : 1;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      SCOPED_TRACE(graph.values[node.inputs[i]].name.text() + " of " + node.line.text());
      const bool is_narrow = graph.values[node.inputs[i]].type.dtype == DType::bf16;
      if (contains(narrow, i)) EXPECT_TRUE(is_narrow);
      if (!contains(narrow, i) && !contains(either, i)) EXPECT_FALSE(is_narrow);
    }
  }
  EXPECT_GT(products, 20U);
  for (const auto& [what, times] : casts) EXPECT_EQ(times, 1) << graph.values[what.first].name.text();
  const auto cast = [&](const char* value, bool backward) { return casts.contains({graph.find(value), backward}); };
  for (const char* weight : {"h.0.attn.c_attn.weight", "h.1.mlp.c_proj.weight"}) {
    EXPECT_TRUE(cast(weight, false) && cast(weight, true)) << weight;
  }
  EXPECT_FALSE(cast("wte.weight", false)) << "the head rounds its table tile by tile";
  for (const char* made : {"h.0.ln_1", "h.0.attn.c_attn", "h.0.attn.attended", "h.0.mlp.c_fc", "h.0.mlp.gelu", "ln_f"}) {
    EXPECT_EQ(graph.values[graph.find(made)].type.dtype, DType::bf16) << made;
    EXPECT_FALSE(cast(made, false)) << made;
  }
  for (const char* exact : {"h.0.attn.lse", "h.0.attn.residual", "h.1.mlp.residual"}) {
    EXPECT_EQ(graph.values[graph.find(exact)].type.dtype, DType::f32) << exact;
  }
}

// A matrix that several lines share is cast for each of them, in each pass. One copy for all would live across all layers.
TEST(Precision, RoundsASharedMatrixWhereItIsRead) {
  Graph graph;
  GraphBuilder builder(graph);
  const ValueId h = builder.add_parameter("h", {1, 3, 4}, {}), w = builder.add_parameter("w", {4, 4}, {}),
                head = builder.add_parameter("head", {5, 4}, {});
  const ValueId targets = builder.add_input("targets", {DType::i32, {1, 3}}),
                units = builder.add_input("units", {DType::f32, {1}});
  ValueId x = h;
  for (const char* line : {"one", "two", "three"}) {
    const GraphBuilder::Scope scope(builder, line);
    x = ops::gelu(builder, ops::linear(builder, x, w, {}, "linear"), "gelu");
  }
  add_training(graph, ops::linear_cross_entropy(builder, x, head, targets, units), {}, 0);
  apply_precision(graph, DType::bf16);
  std::map<std::pair<std::string, bool>, int> casts, reads;  // of w: by line and pass; of each cast
  for (const NodeId id : graph.order) {
    const Node& node = graph.nodes[id];
    if (node.op == &ops::kCast && node.inputs[0] == w) ++casts[{node.line, node.backward}];
    for (const ValueId input : node.inputs) {
      const NodeId producer = graph.values[input].producer;
      if (!producer.valid() || graph.nodes[producer].op != &ops::kCast || graph.nodes[producer].inputs[0] != w) continue;
      EXPECT_EQ(node.line, graph.nodes[producer].line);
      ++reads[{node.line, node.backward}];
    }
  }
  EXPECT_EQ(casts.size(), 6U);
  EXPECT_EQ(casts, reads);
}

// Two products, their gated product and a third product, whose input may have a reader for fp32 alone.
struct GatedModel {
  Graph graph;
  GraphBuilder builder{graph};
  std::optional<UnderflowMeter> meter;

  GatedModel(DType compute, bool read_wide) {
    const ValueId h = builder.add_parameter("h", {1, 3, 4}, {}), head = builder.add_parameter("head", {5, 4}, {});
    const ValueId targets = builder.add_input("targets", {DType::i32, {1, 3}}),
                  units = builder.add_input("units", {DType::f32, {1}});
    const auto product = [&](ValueId x, const char* name, std::int64_t from, std::int64_t to) {
      return ops::linear(builder, x, builder.add_parameter(std::string("w.") + name, {from, to}, {}), {}, name);
    };
    const ValueId gate = product(h, "gate", 4, 8), up = product(h, "up", 4, 8);
    const ValueId out = ops::gated(builder, gate, up, ops::Activation::silu, "gated");
    ValueId x = product(out, "down", 8, 4);
    if (read_wide) x = ops::add(builder, x, product(ops::add(builder, gate, gate, "twice"), "side", 8, 4), "sum");
    add_training(graph, ops::linear_cross_entropy(builder, x, head, targets, units), {}, 0);
    meter = apply_precision(graph, compute);
  }

  // The dtypes of the operands and results of gated products.
  std::set<DType> widths() const {
    std::set<DType> found;
    for (const Node& node : graph.nodes) {
      if (node.op != &ops::kGated && node.op != &ops::kGatedBackward) continue;
      for (const ValueId value : node.inputs) found.insert(graph.values[value].type.dtype);
      for (const ValueId value : node.outputs) found.insert(graph.values[value].type.dtype);
    }
    return found;
  }
};

TEST(Precision, WhatAnOpRoundsTogetherIsOfOneWidth) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    EXPECT_EQ(GatedModel(dtype, false).widths(), std::set{dtype});
    EXPECT_EQ(GatedModel(dtype, true).widths(), std::set{DType::f32}) << "one of them has a wide reader";
  }
}

TEST(Precision, CountsEveryNarrowGradientOfAnOp) {
  const GatedModel model(DType::f16, false);
  ASSERT_TRUE(model.meter);
  const auto& counted = model.meter->gradients;
  for (const char* name : {"gate.grad", "up.grad"}) EXPECT_EQ(std::ranges::count(counted, name), 1) << name;
}

// A normalisation of heads between two products is narrow throughout; one of a residual stream makes narrow numbers of wide ones.
// Either way the gradient of its weight rounds as the forward op does.
TEST(Precision, ANormRoundsAgainWhatItRounded) {
  Graph graph;
  GraphBuilder builder(graph);
  const ValueId h = builder.add_parameter("h", {1, 3, 8}, {}), head = builder.add_parameter("head", {5, 8}, {});
  const ValueId targets = builder.add_input("targets", {DType::i32, {1, 3}}),
                units = builder.add_input("units", {DType::f32, {1}});
  const auto product = [&](ValueId x, const char* name) {
    return ops::linear(builder, x, builder.add_parameter(std::string("w.") + name, {8, 8}, {}), {}, name);
  };
  const auto norm = [&](ValueId x, const char* name, std::int64_t width) {
    const GraphBuilder::Scope scope(builder, name);
    return ops::rms_norm(builder, x, builder.add_parameter(std::string("n.") + name, {width}, {}), 1e-6);
  };
  const ValueId residual = ops::add(builder, h, h, "residual");
  const ValueId of_residual = norm(residual, "outer", 8);
  const ValueId of_heads = norm(product(of_residual, "q"), "heads", 4);
  const ValueId turned = ops::rotary(builder, of_heads, {}, {.head_size = 4, .rotated = 4}, "turned");
  const ValueId out = ops::add(builder, residual, product(turned, "o"), "out");
  add_training(graph, ops::linear_cross_entropy(builder, out, head, targets, units), {}, 0);
  apply_precision(graph, DType::bf16);
  const auto dtype = [&](ValueId value) { return graph.values[value].type.dtype; };
  EXPECT_EQ(dtype(of_residual), DType::bf16);
  EXPECT_EQ(dtype(of_heads), DType::bf16);
  EXPECT_EQ(dtype(turned), DType::bf16);
  int backward = 0;
  for (const Node& node : graph.nodes) {
    if (node.op != &ops::kRmsNormBackward) continue;
    ++backward;
    const DType width = node.line.text() == "heads" ? DType::bf16 : DType::f32;
    EXPECT_EQ(dtype(node.inputs[0]), width) << node.line.text();
    EXPECT_EQ(dtype(node.inputs[1]), width) << node.line.text();
    EXPECT_EQ(dtype(node.outputs[0]), width) << node.line.text();
    EXPECT_EQ(dtype(node.outputs[1]), DType::f32);
    EXPECT_EQ(node.attributes.as<ops::RmsNormBackwardAttributes>().output, DType::bf16);
  }
  EXPECT_EQ(backward, 2);
}

// The weights of this model are far larger than those of a real one. The gradients differ by a few per cent of each tensor.
class PrecisionOf : public testing::TestWithParam<std::pair<DType, double>> {};

TEST_P(PrecisionOf, GradientsAreThoseOfFp32ButForRounding) {
  const auto [dtype, most] = GetParam();
  Model exact(small_config(0)), rounded(small_config(0));
  apply_precision(rounded.training.graph, dtype);
  const auto run = [](Model& model) {
    auto run = std::make_unique<DenseRun>(model.training.graph);
    model.load(*run);
    Model::feed([&](ValueId id, const Numbers& numbers) { run->set(id, numbers); }, model.training.micro, model.batch(1));
    run->run(Section::micro, true);
    return run;
  };
  const auto fine = run(exact), coarse = run(rounded);
  double all = 0;
  for (const ValueId parameter : exact.training.graph.parameters()) {
    for (const double g : fine->get(exact.training.graph.find(exact.training.graph.values[parameter].name.text() + ".grad")))
      all += g * g;
  }
  for (const ValueId parameter : exact.training.graph.parameters()) {
    const std::string name = exact.training.graph.values[parameter].name.text() + ".grad";
    const Numbers want = fine->get(exact.training.graph.find(name)), got = coarse->get(rounded.training.graph.find(name));
    double norm = 0, error = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      norm += want[i] * want[i];
      error += (got[i] - want[i]) * (got[i] - want[i]);
    }
    EXPECT_LE(std::sqrt(error), most * std::max(std::sqrt(norm), 1e-3 * std::sqrt(all))) << name;
    if (name.find("c_attn.weight") != std::string::npos) EXPECT_GT(error, 0) << "nothing was rounded";
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, PrecisionOf, testing::Values(std::pair{DType::bf16, 0.04}, std::pair{DType::f16, 0.005}),
                         [](const auto& dtype) { return std::string(name(dtype.param.first)); });

}  // namespace
}  // namespace plimsoll::test
