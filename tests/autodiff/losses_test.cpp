// Losses of a training graph: plain ones, several, and refused ones. Gradients against central differences.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/small_gpt2.h"
#include "graph/builder.h"
#include "nn/layers.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/loss/loss.h"
#include "ops/squared_error/squared_error.h"

namespace plimsoll::test {
namespace {

// Two chunked losses with scales of their own, one of them after half of the model. The gradient is that of their weighted sum,
// and each total is the sum of its own losses.
TEST(Losses, TheGradientIsThatOfTheWeightedSum) {
  Graph graph;
  GraphBuilder builder(graph);
  const ValueId h = builder.add_parameter("h", {1, 3, 4}, {});
  const ValueId table = builder.add_parameter("table", {5, 4}, {}), other = builder.add_parameter("other", {6, 4}, {});
  const ValueId targets = builder.add_input("targets", {DType::i32, {1, 3}}),
                others = builder.add_input("others", {DType::i32, {1, 3}});
  const ValueId scale = builder.add_input("scale", {DType::f32, {1}}),
                other_scale = builder.add_input("other_scale", {DType::f32, {1}});
  const ValueId early = ops::gelu(builder, h, "early");
  builder.set_line("other");
  const ValueId early_losses = ops::linear_cross_entropy(builder, early, other, others, other_scale);
  builder.set_line("head");
  const ValueId late = ops::gelu(builder, early, "late");
  const ValueId losses = ops::linear_cross_entropy(builder, late, table, targets, scale);
  const Graph reference_graph = graph;
  const TrainingValues values = add_training(graph, {{losses, "loss.total"}, {early_losses, "loss.other.total"}}, {}, 0);
  const double weights[] = {0.25, 0.6};
  const auto feed = [&](const Graph& of, auto&& set) {
    set(of.find("targets"), Numbers{1, 4, 0}), set(of.find("others"), Numbers{2, -1, 5});
    set(of.find("scale"), Numbers{weights[0]}), set(of.find("other_scale"), round_to({weights[1]}, DType::f32));
  };
  std::map<std::string, Numbers> parameters;
  for (const ValueId id : reference_graph.parameters()) {
    parameters[reference_graph.values[id].name.text()] = random_numbers(reference_graph.values[id].type, id.index + 3, {-1, 1});
  }
  const auto sums = [&](const std::string& moved, std::size_t element, double step) {
    ReferenceRun run(reference_graph);
    feed(reference_graph, [&](ValueId id, const Numbers& numbers) { run[id] = numbers; });
    for (const auto& [name, numbers] : parameters) run[reference_graph.find(name)] = numbers;
    if (!moved.empty()) run[reference_graph.find(moved)][element] += step;
    run.run(Section::micro);
    const auto sum = [&](ValueId of) { return std::accumulate(run[of].begin(), run[of].end(), 0.0); };
    return std::pair(sum(losses), sum(early_losses));
  };
  DenseRun run(graph);
  feed(graph, [&](ValueId id, const Numbers& numbers) { run.set(id, numbers); });
  for (const auto& [name, numbers] : parameters) run.set(graph.find(name), numbers);
  run.run(Section::micro, true);
  const auto [all, of_other] = sums("", 0, 0);
  EXPECT_NEAR(run.get(values.loss_totals.at(0))[0], all, 1e-5);
  EXPECT_NEAR(run.get(values.loss_totals.at(1))[0], of_other, 1e-5);
  constexpr double kStep = 1e-4;
  for (const auto& [name, numbers] : parameters) {
    const Numbers gradient = run.get(graph.find(name + ".grad"));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto more = sums(name, i, kStep), less = sums(name, i, -kStep);
      const double expected = (weights[0] * (more.first - less.first) + weights[1] * (more.second - less.second)) / (2 * kStep);
      EXPECT_NEAR(gradient[i], expected, 1e-5) << name << " " << i;
    }
  }
}

// x -> linear -> GELU -> linear, with a loss on top.
struct Perceptron {
  Graph graph;
  GraphBuilder builder{graph};
  ValueId x, scale, out, losses;

  explicit Perceptron(std::int64_t outputs)
      : x(builder.add_input("x", {DType::f32, {4, 5}})), scale(builder.add_input("scale", {DType::f32, {1}})) {
    const nn::Linear in(builder, "in", 5, 8, 0.5), top(builder, "top", 8, outputs, 0.5);
    out = top(builder, ops::gelu(builder, in(builder, x, "in"), "gelu"), "top");
  }

  // Compares the gradients of the kernels with central differences of the losses, weighted with the scale.
  void expect_gradients(ValueId fed, const Numbers& feed) const {
    constexpr double kScale = 0.125, kStep = 1e-4;
    Graph trained = graph;
    const TrainingValues values = add_training(trained, losses, {}, 0);
    DenseRun run(trained);
    std::map<std::string, Numbers> numbers{{"x", random_numbers({DType::f32, {4, 5}}, 1, {})}};
    for (const ValueId each : graph.parameters()) {
      numbers[graph.values[each].name.text()] = random_numbers(graph.values[each].type, 10 + each.index, {});
    }
    for (const auto& [name, of] : numbers) run.set(trained.find(name), of);
    run.set(trained.find("scale"), {kScale}), run.set(trained.find(graph.values[fed].name.text()), feed);
    const auto total = [&](const std::string& name, std::size_t element, double step) {
      ReferenceRun reference(graph);
      for (const auto& [each, of] : numbers) reference[graph.find(each)] = of;
      reference[scale] = {kScale}, reference[fed] = feed;
      if (!name.empty()) reference[graph.find(name)][element] += step;
      reference.run(Section::micro);
      return std::accumulate(reference[losses].begin(), reference[losses].end(), 0.0);
    };
    for (const int steps : {1, 2}) {
      run.run(Section::micro, steps == 1);
      EXPECT_NEAR(run.get(values.loss_totals.front())[0], steps * total("", 0, 0), 1e-5);
      for (const ValueId parameter : graph.parameters()) {
        const std::string name = graph.values[parameter].name.text();
        const Numbers gradient = run.get(trained.find(name + ".grad"));
        for (std::size_t i = 0; i < gradient.size(); ++i) {
          const double expected = (total(name, i, kStep) - total(name, i, -kStep)) / (2 * kStep);
          EXPECT_NEAR(gradient[i], steps * kScale * expected, 1e-6) << name << " " << i;
        }
      }
    }
  }
};

TEST(Losses, AClassifierLearnsFromCrossEntropy) {
  for (const double smoothing : {0.0, 0.1}) {
    Perceptron model(3);
    const ValueId labels = model.builder.add_input("labels", {DType::i32, Shape{4}});
    model.losses = ops::cross_entropy(model.builder, model.out, labels, model.scale, {smoothing});
    model.expect_gradients(labels, {2, 0, -1, 1});
  }
}

TEST(Losses, ARegressionLearnsFromSquaredErrors) {
  Perceptron model(2);
  const ValueId target = model.builder.add_input("target", {DType::f32, {4, 2}});
  model.losses = ops::squared_error(model.builder, model.out, target, model.scale);
  model.expect_gradients(target, {1, -2, 0.5, 0, 3, -1, 0.25, 2});
}

// The forward losses stay if the gradient does not compute them again.
TEST(Losses, PlainLossesAreTakenFromTheForwardPass) {
  Perceptron model(3);
  const ValueId labels = model.builder.add_input("labels", {DType::i32, Shape{4}});
  model.losses = ops::cross_entropy(model.builder, model.out, labels, model.scale);
  add_training(model.graph, model.losses, {}, 0);
  const auto& nodes = model.graph.nodes;
  EXPECT_EQ(std::count_if(nodes.begin(), nodes.end(), [](const Node& node) { return node.op == &ops::kCrossEntropy; }), 1);
  EXPECT_EQ(std::count_if(nodes.begin(), nodes.end(), [](const Node& node) { return node.op == &ops::kCrossEntropyBackward; }),
            1);
  EXPECT_EQ(model.graph.values[model.losses].name.text(), "losses");
}

// The gradient of a loss begins with its scale. A gradient that flows in would be lost.
TEST(Losses, RefusesALossOfLosses) {
  Perceptron model(3);
  const ValueId labels = model.builder.add_input("labels", {DType::i32, Shape{4}}),
                target = model.builder.add_input("target", {DType::f32, Shape{4}});
  const ValueId inner = ops::cross_entropy(model.builder, model.out, labels, model.scale);
  const auto refusal = [&](ValueId losses) -> std::string {
    Graph graph = model.graph;
    try {
      add_training(graph, losses, {}, 0);
    } catch (const Error& error) {
      return error.code + " " + error.message;
    }
    return "none";
  };
  const ValueId of_losses = ops::squared_error(model.builder, inner, target, model.scale);
  EXPECT_EQ(refusal(of_losses), "E-GRADIENT another op reads the losses of cross_entropy");
  const ValueId trained_target = ops::squared_error(model.builder, target, inner, model.scale);
  EXPECT_EQ(refusal(trained_target), "E-GRADIENT the target of squared_error has no gradient");
}

TEST(Losses, RefusesLossesThatAnotherOpReads) {
  Graph graph;
  GraphBuilder builder(graph);
  const ValueId h = builder.add_parameter("h", {1, 3, 4}, {}), w = builder.add_parameter("w", {5, 4}, {});
  const ValueId targets = builder.add_input("targets", {DType::i32, {1, 3}}),
                units = builder.add_input("units", {DType::f32, {1}});
  const ValueId losses = ops::linear_cross_entropy(builder, h, w, targets, units);
  Graph read = graph, result = graph;
  GraphBuilder(read).add1(ops::kRelu, ops::NoAttributes{}, {losses}, "reader");
  EXPECT_THROW(add_training(read, losses, {}, 0), Error);
  result.results.push_back(losses);
  EXPECT_NO_THROW(add_training(result, losses, {}, 0)) << "the backward node makes them in time";
  EXPECT_NO_THROW(add_training(graph, losses, {}, 0));
}

}  // namespace
}  // namespace plimsoll::test
