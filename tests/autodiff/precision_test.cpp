// Which values of a training graph the precision pass rounds, and how far gradients move by it.
#include "autodiff/precision.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/small_gpt2.h"
#include "ops/cast/cast.h"
#include "ops/elementwise/elementwise.h"
#include "ops/loss/loss.h"
#include "ops/matmul/matmul.h"

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

// What products read is rounded where it is made, or once before the first of them: weights once more for the backward pass.
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

// A matrix that several lines share is cast for each of them, in each pass: one copy for all would live across all layers.
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

// Of a model with weights far larger than those of a real one: a few per cent of each tensor.
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
