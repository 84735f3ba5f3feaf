// Batch norm in a training graph: gradients, losses and running statistics do not depend on the cut of a window into
// micro-batches, and running statistics move once for each window.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "autodiff/dense_run.h"
#include "autodiff/precision.h"
#include "autodiff/training.h"
#include "base/error.h"
#include "graph/builder.h"
#include "ops/batch_norm/batch_norm.h"
#include "ops/matmul/matmul.h"
#include "ops/squared_error/squared_error.h"
#include "ops/statistic/statistic.h"
#include "ops/update/update.h"

namespace plimsoll::test {
namespace {

constexpr std::int64_t kChannels = 5, kValues = 3, kWindow = 12, kGroup = 2;
constexpr double kMomentum = 0.25, kAverage = 0.5;

struct Settings {
  std::int64_t batch = kGroup;
  bool scaled = false, averaged = false, fixed = false;
  std::vector<std::int64_t> absent = {};  // samples of each window
  double inverse_scale = 1;
};

// The loss of relu(norm(x w)) against targets.
struct Normed {
  Graph graph;
  GraphBuilder builder{graph};
  ValueId x, ids, targets, scale, w;
  ops::BatchNormLayer norm;
  ValueId losses, evaluated;
  TrainingValues training;

  explicit Normed(const Settings& s)
      : x(builder.add_input("x", {DType::f32, {s.batch, kValues, kChannels}})),
        ids(builder.add_input("ids", {DType::u32, {s.batch, 2}})),
        targets(builder.add_input("targets", {DType::f32, {s.batch, kValues, kChannels}})),
        scale(builder.add_input("scale", {DType::f32, Shape{1}})),
        w(builder.add_parameter("w", {kChannels, kChannels}, {})),
        norm{.gamma = builder.add_parameter("norm.weight", Shape{kChannels}, {}),
             .beta = builder.add_parameter("norm.bias", Shape{kChannels}, {}),
             .mean = ops::add_statistic(builder, "norm.mean", kChannels),
             .variance = ops::add_statistic(builder, "norm.variance", kChannels, {Initializer::Kind::ones}),
             .momentum = kMomentum} {
    builder.set_line("model");
    const ValueId product = ops::matmul(builder, x, w, {}, "product");
    const ValueId y = s.fixed ? ops::fixed_norm(builder, product, norm, {}, ops::NormActivation::relu, "y")
                              : ops::batch_norm(builder, product, norm, ids, {}, ops::NormActivation::relu, kGroup, "y");
    losses = ops::squared_error(builder, y, targets, scale);
    OptimizerSettings settings;
    settings.scaled = s.scaled;
    settings.average_blend = s.averaged ? kAverage : 0;
    training = add_training(graph, losses, settings, kWindow / s.batch);
  }
};

Numbers x_of(std::int64_t window, std::int64_t first, std::int64_t count) {
  Numbers numbers;
  const std::int64_t per_sample = kValues * kChannels;
  for (std::int64_t i = first * per_sample; i < (first + count) * per_sample; ++i)
    numbers.push_back(2 + std::sin(static_cast<double>(i + 1 + 1000 * window)) * static_cast<double>(1 + i % 3));
  return round_to(numbers, DType::f32);
}

// The state after some windows.
struct State {
  Numbers w, gamma, mean, variance, average_of_mean, average_of_variance;
};

State after(std::int64_t windows, const Settings& s) {
  Normed model(s);
  DenseRun run(model.graph);
  Numbers weights(kChannels * kChannels, 0.1);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] += i % kChannels == i / kChannels ? 1 : 0;
  run.set(model.w, weights);
  run.set(model.norm.gamma, Numbers(kChannels, 1.5));
  run.set(model.norm.beta, Numbers(kChannels, 0.25));
  run.set(model.norm.mean, Numbers(kChannels, 0));
  run.set(model.norm.variance, Numbers(kChannels, 1));
  for (std::size_t i = 0; i < model.graph.values.size(); ++i) {
    const Value& value = model.graph.values[ValueId{i}];
    if (value.persistent() && value.role == Role::optimizer_state) run.set(ValueId{i}, Numbers(elements(value.type), 0));
  }
  run.set(model.scale, {1.0 / kWindow});
  run.set(model.targets, Numbers(extent(s.batch * kValues * kChannels), 0.5));
  for (std::int64_t window = 0; window < windows; ++window) {
    run.set(model.training.update_scalars, {1e-2, 1, 1, static_cast<double>(window + 1), 0.9, s.inverse_scale});
    for (std::int64_t first = 0; first < kWindow; first += s.batch) {
      Numbers ids(extent(2 * s.batch), 3);
      for (const std::int64_t each : s.absent) {
        if (each >= first && each < first + s.batch)
          ids[extent(2 * (each - first))] = ids[extent(2 * (each - first) + 1)] = ops::kAbsentRow;
      }
      run.set(model.x, x_of(window, first, s.batch));
      run.set(model.ids, ids);
      run.run(Section::micro, first == 0);
    }
    run.run(Section::update, false);
  }
  const auto average_of = [&](ValueId statistic) {
    const ValueId average = model.graph.find(model.graph.values[statistic].name.text() + "." + kAverageName);
    return average.valid() ? run.get(average) : Numbers{};
  };
  return {run.get(model.w),
          run.get(model.norm.gamma),
          run.get(model.norm.mean),
          run.get(model.norm.variance),
          average_of(model.norm.mean),
          average_of(model.norm.variance)};
}

void expect_near(const Numbers& found, const Numbers& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], tolerance) << what << " " << i;
}

// Running statistics after the first window, which multiplies by the initial weights.
struct Running {
  Numbers mean = Numbers(kChannels, 0), variance = Numbers(kChannels, 1);
};
Running one_window(const std::vector<std::int64_t>& absent) {
  const Numbers x = x_of(0, 0, kWindow);
  std::vector<Numbers> rows;
  for (std::int64_t sample = 0; sample < kWindow; ++sample) {
    if (std::find(absent.begin(), absent.end(), sample) != absent.end()) continue;
    for (std::int64_t row = sample * kValues; row < (sample + 1) * kValues; ++row) {
      Numbers product(kChannels, 0);
      for (std::int64_t i = 0; i < kChannels * kChannels; ++i)
        product[extent(i % kChannels)] +=
            x[extent(row * kChannels + i / kChannels)] * (i % kChannels == i / kChannels ? 1.1 : 0.1);
      rows.push_back(product);
    }
  }
  const auto n = static_cast<double>(rows.size());
  Running running;
  for (std::size_t c = 0; c < extent(kChannels); ++c) {
    double mean = 0, squares = 0;
    for (const Numbers& row : rows) mean += row[c] / n;
    for (const Numbers& row : rows) squares += (row[c] - mean) * (row[c] - mean);
    running.mean[c] = kMomentum * mean;
    running.variance[c] = (1 - kMomentum) + kMomentum * squares / (n - 1);
  }
  return running;
}

TEST(BatchNorm, AWindowMovesTheRunningStatisticsOnceAsOneBatch) {
  for (const std::vector<std::int64_t>& absent : {std::vector<std::int64_t>{}, {1, 4, 5, 11}}) {
    const Running expected = one_window(absent);
    for (const std::int64_t batch : {2, 4, 12}) {
      const State found = after(1, {.batch = batch, .absent = absent});
      expect_near(found.mean, expected.mean, 1e-6, "mean");
      expect_near(found.variance, expected.variance, 4e-6, "variance");
    }
  }
}

// Groups of equal samples have equal bits in any micro-batch. Sums of the product's weight have not.
TEST(BatchNorm, NoWayToCutAWindowChangesTheModel) {
  const Settings absent{.absent = {0, 6, 7}};
  const State expected = after(3, absent);
  for (const std::int64_t batch : {4, 6, 12}) {
    const State found = after(3, {.batch = batch, .absent = absent.absent});
    expect_near(found.w, expected.w, 1e-5, "w");
    expect_near(found.gamma, expected.gamma, 1e-5, "gamma");
    expect_near(found.mean, expected.mean, 1e-5, "mean");
    expect_near(found.variance, expected.variance, 1e-5, "variance");
  }
}

TEST(BatchNorm, AWindowThatDoesNotCountMovesNoStatistic) {
  const State skipped = after(2, {.scaled = true, .averaged = true, .inverse_scale = HUGE_VAL});
  EXPECT_EQ(skipped.mean, Numbers(kChannels, 0));
  EXPECT_EQ(skipped.variance, Numbers(kChannels, 1));
  EXPECT_EQ(skipped.average_of_mean, Numbers(kChannels, 0));  // as it was loaded
  const State counted = after(2, {.scaled = true, .inverse_scale = 0.5});
  EXPECT_NE(counted.mean, skipped.mean);
  EXPECT_NE(counted.variance, skipped.variance);
}

TEST(BatchNorm, AveragesOfWeightsHaveAveragesOfStatistics) {
  const State one = after(1, {.averaged = true}), two = after(2, {.averaged = true}), plain = after(2, {});
  EXPECT_EQ(two.mean, plain.mean);
  EXPECT_TRUE(plain.average_of_mean.empty());
  EXPECT_EQ(one.average_of_mean, one.mean);
  EXPECT_EQ(one.average_of_variance, one.variance);
  for (std::size_t i = 0; i < extent(kChannels); ++i) {
    EXPECT_NEAR(two.average_of_mean[i], one.mean[i] + kAverage * (two.mean[i] - one.mean[i]), 1e-6);
    EXPECT_NEAR(two.average_of_variance[i], one.variance[i] + kAverage * (two.variance[i] - one.variance[i]), 1e-6);
  }
}

TEST(BatchNorm, FixedStatisticsStay) {
  const State found = after(2, {.averaged = true, .fixed = true});
  EXPECT_EQ(found.mean, Numbers(kChannels, 0));
  EXPECT_EQ(found.variance, Numbers(kChannels, 1));
  EXPECT_TRUE(found.average_of_mean.empty());
  EXPECT_NE(found.gamma, Numbers(kChannels, 1.5));
}

// A mean that is trained would silently get no gradient.
TEST(BatchNorm, FixedStatisticsAreNotTrained) {
  Graph graph;
  GraphBuilder builder(graph);
  const ValueId x = builder.add_input("x", {DType::f32, {2, kChannels}}),
                scale = builder.add_input("scale", {DType::f32, Shape{1}});
  const auto parameter = [&](const char* name) { return builder.add_parameter(name, Shape{kChannels}, {}); };
  const ops::BatchNormLayer layer{parameter("gamma"), parameter("beta"), parameter("mean"), parameter("variance")};
  const ValueId y = ops::fixed_norm(builder, x, layer, {}, ops::NormActivation::none, "y");
  const ValueId losses = ops::squared_error(builder, y, x, scale);
  try {
    add_training(graph, losses, {}, 1);
    ADD_FAILURE() << "it is accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, "E-GRADIENT");
  }
}

// The nodes of an op.
std::vector<Node> nodes_of(const Graph& graph, const OpDef& op) {
  std::vector<Node> found;
  for (const Node& node : graph.nodes) {
    if (node.op == &op) found.push_back(node);
  }
  return found;
}

// Between two products x, y and dx have 16 bits; statistics and sums of gradients have 32. The gradient of a residual is added to
// another one, which needs fp32.
TEST(BatchNorm, Computes16BitsBetweenProducts) {
  for (const bool fixed : {false, true}) {
    for (const DType compute : {DType::bf16, DType::f16}) {
      Graph graph;
      GraphBuilder builder(graph);
      const ValueId x = builder.add_input("x", {DType::f32, {4, 3, kChannels}}),
                    ids = builder.add_input("ids", {DType::u32, {4, 2}});
      const ValueId scale = builder.add_input("scale", {DType::f32, Shape{1}});
      const auto product = [&](ValueId of, const std::string& name) {
        const ValueId weight = builder.add_parameter(name + ".w", {kChannels, kChannels}, {});
        return ops::matmul(builder, of, weight, {}, name);
      };
      const auto norm = [&](ValueId of, ValueId residual, const std::string& name) {
        const ops::BatchNormLayer layer{builder.add_parameter(name + ".gamma", Shape{kChannels}, {}),
                                        builder.add_parameter(name + ".beta", Shape{kChannels}, {}),
                                        ops::add_statistic(builder, name + ".mean", kChannels),
                                        ops::add_statistic(builder, name + ".variance", kChannels)};
        return fixed ? ops::fixed_norm(builder, of, layer, residual, ops::NormActivation::relu, name)
                     : ops::batch_norm(builder, of, layer, ids, residual, ops::NormActivation::relu, 2, name);
      };
      const ValueId first = norm(product(x, "first.x"), {}, "first");
      const ValueId second = norm(product(first, "second.x"), first, "second");
      add_training(graph, ops::squared_error(builder, product(second, "end"), x, scale), {}, 1);
      apply_precision(graph, compute);
      for (const char* narrow : {"first.x", "second.x", "first", "second"})
        EXPECT_EQ(graph.values[graph.find(narrow)].type.dtype, compute) << narrow;
      const auto backward = nodes_of(graph, fixed ? ops::kFixedNormBackward : ops::kBatchNormBackward);
      ASSERT_EQ(backward.size(), 2U);
      const std::vector<ValueType> of_second = types_of(graph, backward[0].outputs),
                                   of_first = types_of(graph, backward[1].outputs);
      ASSERT_EQ(of_second.size(), 4U);
      EXPECT_EQ(of_second[0].dtype, compute);
      EXPECT_EQ(of_second[1].dtype, DType::f32);
      EXPECT_EQ(of_first[0].dtype, compute);
    }
  }
}

// The statistics of a pass that does not train are its own: nothing follows.
TEST(BatchNorm, OnlyATrainingPassFollows) {
  for (const bool training : {false, true}) {
    Graph graph;
    GraphBuilder builder(graph);
    const auto parameter = [&](const char* name) { return ops::add_statistic(builder, name, kChannels); };
    const ops::BatchNormLayer layer{parameter("gamma"), parameter("beta"), parameter("mean"), parameter("variance")};
    if (!training) builder.begin_forward({"evaluate"});
    const ValueId x = builder.add_input("x", {DType::f32, {4, kChannels}}), ids = builder.add_input("ids", {DType::u32, {4, 2}});
    ops::batch_norm(builder, x, layer, ids, {}, ops::NormActivation::none, 2, "y");
    EXPECT_EQ(graph.find("mean.sums").valid(), training);
  }
}

}  // namespace
}  // namespace plimsoll::test
