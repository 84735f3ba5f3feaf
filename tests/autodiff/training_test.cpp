// Gradients of a whole small GPT-2, built by add_training and computed by the kernels, against central differences of the loss in
// fp64; and the graph that add_training makes.
#include "autodiff/training.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "autodiff/small_gpt2.h"
#include "graph/builder.h"
#include "nn/layers.h"
#include "ops/elementwise/elementwise.h"
#include "ops/embedding/embedding.h"
#include "ops/loss/loss.h"
#include "ops/matmul/matmul.h"
#include "ops/norm/norm.h"
#include "ops/update/update.h"

namespace plimsoll::test {
namespace {

// The accumulator of a parameter, with the rows that are kept apart until the update.
Numbers gradient_of(const Graph& graph, const DenseRun& run, const std::string& parameter) {
  Numbers sum = run.get(graph.find(parameter + ".grad"));
  const ValueId rows = graph.find(parameter + ".grad.rows"), map = graph.find(parameter + ".grad.slots");
  if (!rows.valid()) return sum;
  const Numbers apart = run.get(rows), slots = map.valid() ? run.get(map) : Numbers{};
  const std::size_t width = extent(graph.values[rows].type.shape.last());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const double slot = map.valid() ? slots[i / width] - 1 : static_cast<double>(i / width);
    if (slot >= 0) sum[i] += apart[static_cast<std::size_t>(slot) * width + i % width];
  }
  return sum;
}

// At a few elements of every parameter.
void expect_gradients(const Model& model, DenseRun& run, const std::vector<std::vector<Numbers>>& batches) {
  constexpr double kStep = 1e-4;
  const std::vector<ValueId> ids = model.training.graph.parameters();
  for (std::size_t parameter = 0; parameter < ids.size(); ++parameter) {
    SCOPED_TRACE(model.training.graph.values[ids[parameter]].name.text());
    const Numbers gradient = gradient_of(model.training.graph, run, model.training.graph.values[ids[parameter]].name);
    double scale = 0.01;
    for (const double x : gradient) scale = std::max(scale, std::abs(x));
    for (std::size_t i = 0; i < gradient.size(); i += 1 + gradient.size() / 8) {
      double expected = 0;
      for (const auto& batch : batches) {
        expected +=
            (model.losses(batch, parameter, i, kStep) - model.losses(batch, parameter, i, -kStep)) / (2 * kStep) * batch[3][0];
      }
      ASSERT_NEAR(gradient[i], expected, scale * 1e-5) << "element " << i;
    }
  }
}

class Gpt2Gradient : public testing::TestWithParam<double> {};

TEST_P(Gpt2Gradient, OfOneMicroStepAgreesWithFiniteDifferences) {
  const Model model(small_config(GetParam()));
  const auto batch = model.batch(1);
  DenseRun run(model.training.graph);
  model.load(run);
  Model::feed([&](ValueId id, const Numbers& numbers) { run.set(id, numbers); }, model.training.micro, batch);
  run.run(Section::micro, /*window_start=*/true);  // over poisoned accumulators
  expect_gradients(model, run, {batch});
  EXPECT_NEAR(run.get(model.values.loss_totals.front())[0], model.losses(batch, 0, 0, 0), 1e-4);
}

TEST_P(Gpt2Gradient, OfAWindowIsTheSumOfItsMicroSteps) {
  const Model model(small_config(GetParam()));
  const std::vector<std::vector<Numbers>> batches{model.batch(1), model.batch(20), model.batch(40)};
  DenseRun run(model.training.graph, /*threads=*/2);
  model.load(run);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    Model::feed([&](ValueId id, const Numbers& numbers) { run.set(id, numbers); }, model.training.micro, batches[i]);
    run.run(Section::micro, i == 0);
  }
  expect_gradients(model, run, batches);
}

// The embedding's part of the tied table's gradient has a row for each token that a window can look up.
TEST(AddTraining, RowsOfASharedTableThatAWindowLooksUpHaveSlots) {
  Gpt2Config config = small_config(0);
  config.vocab = 400;
  const Model model(config, {}, 3);
  const Graph& graph = model.training.graph;
  EXPECT_EQ(graph.values[graph.find("wte.weight.grad.rows")].type, (ValueType{DType::f32, {3 * 2 * 7, config.width}}));
  const std::vector<std::vector<Numbers>> batches{model.batch(1), model.batch(20), model.batch(40)};
  DenseRun run(graph, /*threads=*/2);
  model.load(run);
  for (int window = 0; window < 2; ++window) {
    for (std::size_t i = 0; i < batches.size(); ++i) {
      Model::feed([&](ValueId id, const Numbers& numbers) { run.set(id, numbers); }, model.training.micro, batches[i]);
      run.run(Section::micro, i == 0);
    }
    expect_gradients(model, run, batches);
  }
  const Model all(config, {}, 4);
  EXPECT_FALSE(all.training.graph.find("wte.weight.grad.slots").valid()) << "56 of 400 are more than an eighth";
}

// The gradient of a table for lookups, also read by the head if it is tied.
Numbers table_gradient(std::int64_t rows, bool tied, std::int64_t padding) {
  Graph graph;
  GraphBuilder builder(graph);
  const ValueId table = builder.add_parameter("table", {rows, 4}, {}),
                head = tied ? table : builder.add_parameter("head", {rows, 4}, {});
  const ValueId tokens = builder.add_input("tokens", {DType::i32, {2, 3}}),
                targets = builder.add_input("targets", {DType::i32, {2, 3}}),
                units = builder.add_input("units", {DType::f32, {1}});
  const ValueId x = ops::embedding(builder, tokens, table, {}, {}, padding, "x");
  add_training(graph, ops::linear_cross_entropy(builder, x, head, targets, units), {}, 1);
  const ValueId map = graph.find("table.grad.slots");
  EXPECT_EQ(map.valid(), tied && rows >= 48);
  DenseRun run(graph);
  run.set(table, random_numbers(graph.values[table].type, 1, {-1, 1}));
  if (!tied) run.set(head, random_numbers(graph.values[head].type, 2, {-1, 1}));
  run.set(tokens, {1, 5, 1, 5, 0, 5});
  run.set(targets, {2, 1, 0, 3, 4, 5});
  run.set(units, {1});
  run.run(Section::micro, true);
  return gradient_of(graph, run, "table");
}

// In a tied table, the head's part of the gradient stays. The row gets the gradient of a token that is looked up as another row.
TEST(AddTraining, PaddingGetsNoGradientOfTheLookup) {
  for (const auto& [rows, tied] : {std::pair<std::int64_t, bool>{8, false}, {8, true}, {64, true}}) {
    SCOPED_TRACE(std::to_string(rows) + (tied ? ", tied" : ""));
    const Numbers all = table_gradient(rows, tied, -1), none = table_gradient(rows, tied, 7),
                  without = table_gradient(rows, tied, 5);
    EXPECT_EQ(all, none) << "the row is not looked up";
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i / 4 != 5) EXPECT_EQ(all[i], without[i]);
      if (i / 4 == 5) EXPECT_NE(all[i], without[i]);
      if (i / 4 == 5) EXPECT_EQ(without[i] != 0, tied);
    }
  }
}

// The slots have the order of the parameters' names. The cases include a tied head, whose table has separate rows.
TEST(AddTraining, ReportsEachParameterByItsPlace) {
  Model model(small_config(0), {});
  const Graph& graph = model.training.graph;
  DenseRun run(graph);
  model.load(run);
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[ValueId{i}];
    if (value.role == Role::optimizer_state && value.persistent())
      run.set(ValueId{i}, random_numbers(value.type, i, {0.01, 0.1}));
  }
  Model::feed([&](ValueId id, const Numbers& numbers) { run.set(id, numbers); }, model.training.micro, model.batch(1));
  run.run(Section::micro, true);
  std::vector<Numbers> before, gradients;
  for (const ValueId parameter : model.values.reported) {
    before.push_back(run.get(parameter));
    gradients.push_back(gradient_of(graph, run, graph.values[parameter].name));
  }
  run.set(model.values.update_scalars, {1e-2, 0.1, 0.05, 3, 0.9, 1});
  run.run(Section::update, false);
  EXPECT_EQ(model.values.reported.size(), graph.parameters().size());
  const Numbers report = run.get(model.values.report);
  ASSERT_EQ(report.size(), kReported * before.size());
  const auto squares = [](const Numbers& numbers) {
    double sum = 0;
    for (const double x : numbers) sum += x * x;
    return sum;
  };
  for (std::size_t i = 0; i < before.size(); ++i) {
    SCOPED_TRACE(graph.values[model.values.reported[i]].name.text());
    Numbers step = run.get(model.values.reported[i]);
    for (std::size_t j = 0; j < step.size(); ++j) step[j] -= before[i][j];
    EXPECT_NEAR(report[i * kReported + kGradientSquares], squares(gradients[i]), 1e-5 * squares(gradients[i]));
    EXPECT_NEAR(report[i * kReported + kParameterSquares], squares(before[i]), 1e-5 * squares(before[i]));
    EXPECT_NEAR(report[i * kReported + kStepSquares], squares(step), 1e-3 * squares(step));
    EXPECT_GT(squares(step), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Dropout, Gpt2Gradient, testing::Values(0.0, 0.2),
                         [](const auto& test) { return test.param > 0 ? "dropped" : "plain"; });

// The update section against the references, from the gradients that the kernels have computed.
void expect_update(const OptimizerSettings& settings) {
  Model model(small_config(0), settings);
  Graph& graph = model.training.graph;
  DenseRun run(graph);
  model.load(run);
  Model::feed([&](ValueId id, const Numbers& numbers) { run.set(id, numbers); }, model.training.micro, model.batch(1));
  run.run(Section::micro, true);
  run.set(model.values.update_scalars, {1e-2, 0.1, 0.05, 0, 0.9});
  ReferenceRun expected(graph);
  std::vector<ValueId> states;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[ValueId{i}];
    if (value.role == Role::optimizer_state && value.persistent()) {
      run.set(ValueId{i}, random_numbers(value.type, i, {0.01, 0.1}));
      states.push_back(ValueId{i});
    }
    if (value.persistent() || ValueId{i} == model.values.update_scalars) expected[ValueId{i}] = run.get(ValueId{i});
  }
  run.run(Section::update, false);
  expected.run(Section::update);
  EXPECT_NEAR(run.get(model.values.gradient_norm)[0], expected[model.values.gradient_norm][0], 1e-8);
  for (const ValueId parameter : graph.parameters()) states.push_back(parameter);
  for (const ValueId id : states) {
    SCOPED_TRACE(graph.values[id].name);
    const Numbers actual = run.get(id);
    for (std::size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[id][i], 2 * tolerance(DType::f32)) << i;
  }
}

TEST(Update, AdamWAgreesWithTheReference) { expect_update({.weight_decay = 0.1, .clip = 0.05}); }
TEST(Update, SgdAgreesWithTheReference) { expect_update({.kind = OptimizerSettings::Kind::sgd, .weight_decay = 0.1, .clip = 0}); }
TEST(Update, LionAgreesWithTheReference) {
  expect_update({.kind = OptimizerSettings::Kind::lion, .beta2 = 0.99, .weight_decay = 0.1, .clip = 0, .clip_value = 0.01});
}
TEST(Update, NesterovAgreesWithTheReference) {
  expect_update(
      {.kind = OptimizerSettings::Kind::sgd, .momentum = true, .nesterov = true, .decay = OptimizerSettings::Decay::all});
}

// The update op of each parameter, by the parameter's name.
std::map<std::string, double> decays(OptimizerSettings::Decay decay) {
  const Model model(small_config(0), {.weight_decay = 0.1, .decay = decay});
  std::map<std::string, double> by_name;
  for (const Node& node : model.training.graph.nodes) {
    if (node.op != &ops::kAdamW) continue;
    by_name[model.training.graph.values[node.inputs[0]].name.text()] = node.attributes.as<ops::AdamWAttributes>().weight_decay;
  }
  return by_name;
}

TEST(Update, WeightDecayReachesItsGroup) {
  using Decay = OptimizerSettings::Decay;
  auto matrices = decays(Decay::matrices), all = decays(Decay::all), without = decays(Decay::no_embeddings);
  for (const char* name : {"wte.weight", "wpe.weight", "h.0.attn.c_attn.weight", "h.0.ln_1.weight", "h.0.mlp.c_fc.bias"}) {
    SCOPED_TRACE(name);
    const bool embedding = std::string(name).starts_with("w"), vector = std::string(name).find("c_attn.w") == std::string::npos;
    ASSERT_TRUE(all.contains(name));
    EXPECT_EQ(all[name], 0.1);
    EXPECT_EQ(matrices[name], embedding || !vector ? 0.1 : 0);
    EXPECT_EQ(without[name], embedding || vector ? 0 : 0.1);
  }
}

TEST(AddTraining, GivesEachTrainableParameterAnAccumulator) {
  const Model model(small_config(0));
  const Graph& graph = model.training.graph;
  for (const ValueId parameter : graph.parameters()) {
    const ValueId accumulator = model.accumulator(parameter);
    ASSERT_TRUE(accumulator.valid());
    EXPECT_EQ(graph.values[accumulator].role, Role::accumulator);
    EXPECT_TRUE(graph.values[accumulator].persistent());
    EXPECT_TRUE(graph.values[accumulator].type == graph.values[parameter].type);
  }
}

// The backward loss yields the losses as well, so the forward one is gone.
TEST(AddTraining, ComputesTheLossOnce) {
  const Model model(small_config(0));
  const auto& nodes = model.training.graph.nodes;
  EXPECT_EQ(std::count_if(nodes.begin(), nodes.end(), [](const Node& node) { return node.op == &ops::kLinearCrossEntropy; }), 0);
  EXPECT_EQ(
      std::count_if(nodes.begin(), nodes.end(), [](const Node& node) { return node.op == &ops::kLinearCrossEntropyBackward; }),
      1);
}

// Backward nodes carry the model line and, where they draw noise, the site of their forward node.
TEST(AddTraining, BackwardNodesBelongToForwardLines) {
  const Model model(small_config(0.2));
  const Graph& graph = model.training.graph;
  for (const Node& node : graph.nodes) {
    if (!node.backward || node.section != Section::micro || node.line == "loss") continue;
    const auto forward = [&](const Node& other) { return !other.backward && other.line == node.line; };
    EXPECT_TRUE(node.line == "lm_head" || std::any_of(graph.nodes.begin(), graph.nodes.end(), forward)) << node.line.text();
    const auto same_site = [&](const Node& other) { return !other.backward && other.site == node.site; };
    EXPECT_TRUE(!node.op->random || std::any_of(graph.nodes.begin(), graph.nodes.end(), same_site)) << node.line.text();
  }
}

// In every section, also with the noise switched off, the op has the same key.
TEST(AddTraining, EveryRandomOpOfAModelHasASiteOfItsOwn) {
  const Graph graph =
      build_gpt2(small_config(0.2), {.micro = 2, .evaluate = 2, .tokens = 7, .generate = {.rows = 1, .prompt = 7, .slots = 7}},
                 {.seed = 5})
          .graph;
  std::set<std::pair<Section, std::uint64_t>> sites;
  std::set<std::string> keys;
  int random = 0, noisy = 0;
  for (const Node& node : graph.nodes) {
    if (!node.op->random) continue;
    ++random;
    EXPECT_TRUE(sites.emplace(node.section, node.site).second) << node.line.text();
    if (node.section != Section::micro) continue;
    ++noisy;
    const std::string text = node.attributes.text();
    EXPECT_TRUE(keys.insert(text.substr(text.find("key="))).second) << node.line.text();
  }
  EXPECT_EQ(noisy, 1 + 3 * 2);  // the embedding; attention and two residuals of each block
  EXPECT_EQ(random, noisy + 2 + 2);
}

TEST(AddTraining, GradientsAreNamedAfterWhatTheyAreOf) {
  const Model model(small_config(0));
  const Graph& graph = model.training.graph;
  std::set<std::string> names;
  for (const Value& value : graph.values) {
    names.insert(value.name);
    EXPECT_EQ(value.name.text().find("h.0"), value.name.text().rfind("h.0")) << value.name.text();
    if (value.version_of.valid() && value.role == Role::accumulator && graph.nodes[value.producer].op == &ops::kMatmul) {
      EXPECT_EQ(value.name, graph.values[value.version_of].name);
    }
  }
  EXPECT_TRUE(names.contains("h.1.mlp.c_fc.weight.grad") && names.contains("h.1.mlp.c_fc.bias.grad"));
  EXPECT_TRUE(names.contains("h.1.mlp.c_fc.grad"));
}

// h = ln(x W) with the loss on top; some parameters are frozen.
struct FrozenModel {
  Graph graph;
  GraphBuilder builder{graph};
  ValueId tokens, targets, units, table, positions, head, losses;
  nn::Linear linear;
  nn::LayerNorm norm;

  explicit FrozenModel(const std::vector<std::string>& frozen)
      : tokens(builder.add_input("tokens", {DType::i32, {1, 5}})),
        targets(builder.add_input("targets", {DType::i32, {1, 5}})),
        units(builder.add_input("units", {DType::f32, {1}})),
        table(builder.add_parameter("table", {7, 6}, {})),
        positions(builder.add_parameter("positions", {5, 6}, {})),
        head(builder.add_parameter("head", {7, 6}, {})),
        linear(builder, "linear", 6, 6, 0.1),
        norm(builder, "norm", 6, 1e-5) {
    for (const std::string& name : frozen) graph.values[graph.find(name)].parameter->kind = ParameterKind::frozen;
    const ValueId x = ops::embedding(builder, tokens, table, positions, {}, /*padding=*/-1, "x");
    losses = ops::linear_cross_entropy(builder, norm(builder, linear(builder, x, "linear")), head, targets, units);
  }
};

Numbers gradient_with_frozen(const std::vector<std::string>& frozen, const std::string& of) {
  FrozenModel model(frozen);
  add_training(model.graph, model.losses, {}, 0);
  for (const std::string& name : frozen) EXPECT_FALSE(model.graph.find(name + ".grad").valid()) << name;
  DenseRun run(model.graph);
  for (const ValueId parameter : model.graph.parameters()) {
    run.set(parameter, random_numbers(model.graph.values[parameter].type, parameter.index, {}));
  }
  run.set(model.graph.find("tokens"), {1, 6, 0, 1, 3});
  run.set(model.graph.find("targets"), {6, 0, -1, 3, 2});
  run.set(model.graph.find("units"), {0.25});
  run.run(Section::micro, true);
  return run.get(model.graph.find(of + ".grad"));
}

TEST(AddTraining, FreezingAParameterLeavesTheOtherGradientsAsTheyAre) {
  const std::vector<std::string> all{"table", "positions", "head", "linear.weight", "linear.bias", "norm.weight", "norm.bias"};
  for (const std::string& of : all) {
    const Numbers expected = gradient_with_frozen({}, of);
    for (const std::string& frozen : all) {
      if (frozen == of) continue;
      EXPECT_EQ(gradient_with_frozen({frozen}, of), expected) << of << " with " << frozen << " frozen";
    }
    std::vector<std::string> others = all;
    std::erase(others, of);
    EXPECT_EQ(gradient_with_frozen(others, of), expected) << of << " alone";
  }
}

// Outputs that no node reads, that are no result and that are not added to a parameter's sum.
std::vector<std::string> wasted(const Graph& graph) {
  std::set<ValueId> read(graph.results.begin(), graph.results.end());
  for (const Node& node : graph.nodes) read.insert(node.inputs.begin(), node.inputs.end());
  std::vector<std::string> names;
  for (const NodeId id : graph.section_order(Section::micro)) {
    const Node& node = graph.nodes[id];
    for (const ValueId output : node.backward ? node.outputs : std::vector<ValueId>{}) {
      if (!read.contains(output) && !graph.values[output].version_of.valid()) names.push_back(graph.values[output].name);
    }
  }
  return names;
}

// The gradient of a frozen head alone would be as large as the head.
TEST(AddTraining, WhatIsFrozenCostsNoGradient) {
  const std::vector<std::string> all{"table", "positions", "head", "linear.weight", "linear.bias", "norm.weight", "norm.bias"};
  for (unsigned which = 0; which + 1 < 1U << all.size(); ++which) {
    std::vector<std::string> frozen;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if ((which >> i & 1U) != 0) frozen.push_back(all[i]);
    }
    FrozenModel model(frozen);
    add_training(model.graph, model.losses, {}, 0);
    EXPECT_EQ(wasted(model.graph), std::vector<std::string>{}) << which;
  }
}

TEST(AddTraining, TheBackwardPassEndsBelowTheLowestTrainedValue) {
  const auto lines = [](const std::string& trained) {
    std::vector<std::string> frozen{"table", "positions", "head", "linear.weight", "linear.bias", "norm.weight", "norm.bias"};
    std::erase(frozen, trained);
    FrozenModel model(frozen);
    add_training(model.graph, model.losses, {}, 0);
    std::vector<std::string> ops;
    for (const NodeId id : model.graph.section_order(Section::micro)) {
      if (model.graph.nodes[id].backward) ops.emplace_back(model.graph.nodes[id].op->name);
    }
    if (!ops.empty() && ops.back() == "sum_losses") ops.pop_back();
    return ops;
  };
  using Ops = std::vector<std::string>;
  EXPECT_EQ(lines("head"), (Ops{"linear_cross_entropy_backward"}));
  EXPECT_EQ(lines("norm.weight"), (Ops{"linear_cross_entropy_backward", "layer_norm_backward"}));
  EXPECT_EQ(lines("norm.bias"), (Ops{"linear_cross_entropy_backward", "sum_rows"}));
  EXPECT_EQ(lines("linear.bias"), (Ops{"linear_cross_entropy_backward", "layer_norm_backward", "sum_rows"}));
}

// Three products add to the sum of one matrix in 16 bits. Each rounds with noise of its own; the first has the noise of a matrix
// that is read once.
TEST(AddTraining, SharedMatricesRoundEachAdditionByItself) {
  OptimizerSettings settings;
  settings.gradients = DType::bf16;
  settings.seed = 9;
  const auto keys = [&](int lines) {
    Graph graph;
    GraphBuilder builder(graph);
    const ValueId h = builder.add_parameter("h", {1, 3, 4}, {}), w = builder.add_parameter("w", {4, 4}, {}),
                  head = builder.add_parameter("head", {5, 4}, {});
    const ValueId targets = builder.add_input("targets", {DType::i32, {1, 3}}),
                  units = builder.add_input("units", {DType::f32, {1}});
    ValueId x = ops::gelu(builder, h, "x");
    for (int i = 0; i < lines; ++i) x = ops::linear(builder, x, w, {}, "linear" + std::to_string(i));
    add_training(graph, ops::linear_cross_entropy(builder, x, head, targets, units), settings, 0);
    std::vector<NoiseKey> found;
    for (const NodeId id : graph.order) {
      const Node& node = graph.nodes[id];
      if (node.op == &ops::kAccumulateRounded) found.push_back(node.attributes.as<ops::RoundingAttributes>().rounding);
    }
    return found;
  };
  const std::vector<NoiseKey> once = keys(1), shared = keys(3);
  ASSERT_EQ(once.size(), 1U);
  ASSERT_EQ(shared.size(), 3U);
  EXPECT_EQ(shared[0], once[0]);
  EXPECT_EQ(std::set<NoiseKey>(shared.begin(), shared.end()).size(), 3U);
}

// A tensor of three axes is a matrix of rows as long as its last one.
TEST(AddTraining, AdafactorFactorsTensorsOfMoreAxes) {
  Graph graph;
  GraphBuilder builder(graph);
  const ValueId h = builder.add_parameter("h", {2, 3, 4}, {}), head = builder.add_parameter("head", {5, 4}, {});
  const ValueId targets = builder.add_input("targets", {DType::i32, {2, 3}}),
                units = builder.add_input("units", {DType::f32, {1}});
  OptimizerSettings settings;
  settings.kind = OptimizerSettings::Kind::adafactor;
  add_training(graph, ops::linear_cross_entropy(builder, h, head, targets, units), settings, 0);
  EXPECT_FALSE(graph.find("h.v").valid());
  EXPECT_EQ(graph.values[graph.find("h.rows")].bytes(), Bytes{6 * 4});
  EXPECT_EQ(graph.values[graph.find("h.columns")].bytes(), Bytes{4 * 4});
}

// A parameter that two ops read gets the sum of both gradients.
TEST(AddTraining, AddsTheGradientsOfASharedParameter) {
  Graph graph;
  GraphBuilder builder(graph);
  const ValueId h = builder.add_parameter("h", {1, 3, 4}, {}), w = builder.add_parameter("w", {5, 4}, {});
  const ValueId targets = builder.add_input("targets", {DType::i32, {1, 3}}),
                units = builder.add_input("units", {DType::f32, {1}});
  const ValueId doubled = ops::add(builder, h, h, "doubled");
  const ValueId mixed = ops::add(builder, doubled, ops::gelu(builder, h, "gelu"), "mixed");
  const ValueId losses = ops::linear_cross_entropy(builder, mixed, w, targets, units);
  const Graph reference_graph = graph;
  add_training(graph, losses, {}, 0);
  const Numbers h0 = random_numbers({DType::f32, {1, 3, 4}}, 1, {}), w0 = random_numbers({DType::f32, {5, 4}}, 2, {});
  DenseRun run(graph);
  run.set(h, h0), run.set(w, w0), run.set(targets, {1, 4, 0}), run.set(units, {1});
  run.run(Section::micro, true);
  const Numbers gradient = run.get(graph.find("h.grad"));
  const auto total = [&](std::size_t element, double step) {
    ReferenceRun reference(reference_graph);
    reference[h] = h0, reference[w] = w0, reference[targets] = {1, 4, 0}, reference[units] = {1};
    reference[h][element] += step;
    reference.run(Section::micro);
    const Numbers& each = reference[losses];
    return each[0] + each[1] + each[2];
  };
  for (std::size_t i = 0; i < gradient.size(); ++i) EXPECT_NEAR(gradient[i], (total(i, 1e-4) - total(i, -1e-4)) / 2e-4, 1e-5);
}

// Norms that share one of their two parameters, or use one twice. When the other's accumulator is written, the shared one already
// has a sum.
TEST(AddTraining, AddsTheGradientsOfSharedNorms) {
  enum class Shared { gamma, beta, both, one_parameter };
  for (const Shared shared : {Shared::gamma, Shared::beta, Shared::both, Shared::one_parameter}) {
    SCOPED_TRACE(static_cast<int>(shared));
    Graph graph;
    GraphBuilder builder(graph);
    const ValueId h = builder.add_parameter("h", {1, 3, 4}, {}), w = builder.add_parameter("w", {5, 4}, {});
    std::vector<ValueId> norms;  // gamma, beta of each of two
    for (const char* name : {"g0", "b0", "g1", "b1"}) norms.push_back(builder.add_parameter(name, Shape{4}, {}));
    if (shared == Shared::gamma || shared == Shared::both) norms[2] = norms[0];
    if (shared == Shared::beta || shared == Shared::both) norms[3] = norms[1];
    if (shared == Shared::one_parameter) norms[3] = norms[2] = norms[1] = norms[0];
    const ValueId targets = builder.add_input("targets", {DType::i32, {1, 3}}),
                  units = builder.add_input("units", {DType::f32, {1}});
    builder.set_line("one");
    const ValueId one = ops::layer_norm(builder, h, norms[0], norms[1], 1e-5);
    builder.set_line("two");
    const ValueId two = ops::layer_norm(builder, one, norms[2], norms[3], 1e-5);
    const ValueId losses = ops::linear_cross_entropy(builder, two, w, targets, units);
    const Graph reference_graph = graph;
    add_training(graph, losses, {}, 0);
    std::vector<Numbers> values;
    for (const ValueId parameter : reference_graph.parameters()) {
      values.push_back(random_numbers(reference_graph.values[parameter].type, parameter.index + 1, {0.5, 1.5}));
    }
    DenseRun run(graph);
    for (const ValueId parameter : graph.parameters()) run.set(parameter, values[parameter.index]);
    run.set(targets, {1, 4, 0}), run.set(units, {1});
    for (const int steps : {1, 2}) {  // the window's first micro-step, then one that adds
      run.run(Section::micro, steps == 1);
      for (const ValueId parameter : norms) {
        const Numbers gradient = run.get(graph.find(graph.values[parameter].name + ".grad"));
        const auto total = [&](std::size_t element, double step) {
          ReferenceRun reference(reference_graph);
          for (const ValueId each : reference_graph.parameters()) reference[each] = values[each.index];
          reference[targets] = {1, 4, 0}, reference[units] = {1};
          reference[parameter][element] += step;
          reference.run(Section::micro);
          return reference[losses][0] + reference[losses][1] + reference[losses][2];
        };
        for (std::size_t i = 0; i < gradient.size(); ++i) {
          EXPECT_NEAR(gradient[i], steps * (total(i, 1e-4) - total(i, -1e-4)) / 2e-4, 1e-4)
              << graph.values[parameter].name.text();
        }
      }
    }
  }
}

TEST(AddTraining, NamesAnOpWithoutGradient) {
  Graph graph;
  GraphBuilder builder(graph);
  const ValueId x = builder.add_parameter("x", {1, 3, 4}, {}), w = builder.add_parameter("w", {5, 4}, {});
  const ValueId y = builder.add1(ops::kReluBackward, ops::NoAttributes{}, {x, x}, "y");
  const ValueId targets = builder.add_input("targets", {DType::i32, {1, 3}}),
                units = builder.add_input("units", {DType::f32, {1}});
  const ValueId losses = ops::linear_cross_entropy(builder, y, w, targets, units);
  try {
    add_training(graph, losses, {}, 0);
    FAIL() << "it should refuse";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, "E-GRADIENT");
    EXPECT_NE(std::string(error.what()).find("relu_backward has no gradient"), std::string::npos);
  }
}

}  // namespace
}  // namespace plimsoll::test
