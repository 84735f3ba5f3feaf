// Statistics in a training graph: the nodes that change them, the time of the change, and equal results for every split of a
// window.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "autodiff/dense_run.h"
#include "autodiff/training.h"
#include "base/error.h"
#include "graph/builder.h"
#include "ops/matmul/matmul.h"
#include "ops/squared_error/squared_error.h"
#include "ops/statistic/statistic.h"

namespace plimsoll::test {
namespace {

constexpr std::int64_t kWidth = 5, kWindow = 8;
constexpr double kBlend = 0.25;

// The loss of (x - mean) w against targets; `mean` follows x, and `most` too.
struct Following {
  Graph graph;
  GraphBuilder builder{graph};
  ValueId x, targets, scale, w, mean, most, losses;
  TrainingValues training;

  explicit Following(std::int64_t rows, bool scaled = false, bool train = true)
      : x(builder.add_input("x", {DType::f32, {rows, kWidth}})),
        targets(builder.add_input("targets", {DType::f32, {rows, kWidth}})),
        scale(builder.add_input("scale", {DType::f32, Shape{1}})),
        w(builder.add_parameter("w", {kWidth, kWidth}, {})),
        mean(ops::add_statistic(builder, "mean", kWidth)),
        most(ops::add_statistic(builder, "most", kWidth)) {
    builder.set_line("model");
    ops::follow_mean(builder, x, mean, {kBlend});
    ops::follow_magnitude(builder, x, most);
    const ValueId centred = ops::subtract_mean(builder, x, mean, "centred");
    losses = ops::squared_error(builder, ops::matmul(builder, centred, w, {}, "y"), targets, scale);
    OptimizerSettings settings;
    settings.scaled = scaled;
    if (train) training = add_training(graph, losses, settings, kWindow / rows);
  }
};

Numbers rows_of(std::int64_t first, std::int64_t count) {
  Numbers numbers;
  for (std::int64_t i = first * kWidth; i < (first + count) * kWidth; ++i)
    numbers.push_back(std::sin(static_cast<double>(i + 1)) * static_cast<double>(1 + i % 3));
  return round_to(numbers, DType::f32);
}

// The statistics after n windows.
struct Statistics {
  Numbers mean, most;
  friend bool operator==(const Statistics&, const Statistics&) = default;
};

Statistics after(std::int64_t windows, std::int64_t rows, double inverse_scale = 1) {
  const bool scaled = inverse_scale != 1;
  Following model(rows, scaled);
  DenseRun run(model.graph);
  run.set(model.w, Numbers(kWidth * kWidth, 0.1));
  for (const ValueId each : {model.mean, model.most}) run.set(each, Numbers(kWidth, 0));
  for (std::size_t i = 0; i < model.graph.values.size(); ++i) {
    const Value& value = model.graph.values[ValueId{i}];
    if (value.persistent() && value.role == Role::optimizer_state) run.set(ValueId{i}, Numbers(elements(value.type), 0));
  }
  run.set(model.scale, {1.0 / kWindow});
  run.set(model.targets, Numbers(extent(rows * kWidth), 0.5));
  run.set(model.training.update_scalars, {1e-3, 1, 1, 1, 0.9, inverse_scale});
  for (std::int64_t window = 0; window < windows; ++window) {
    for (std::int64_t row = 0; row < kWindow; row += rows) {
      run.set(model.x, rows_of(window * kWindow + row, rows));
      run.run(Section::micro, row == 0);
    }
    run.run(Section::update, false);
  }
  return {run.get(model.mean), run.get(model.most)};
}

TEST(Statistics, AMeanMovesOnceForEachWindow) {
  Numbers mean(kWidth, 0), most(kWidth, 0);
  for (std::int64_t window = 0; window < 3; ++window) {
    const Numbers rows = rows_of(window * kWindow, kWindow);
    Numbers sums(kWidth, 0);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      sums[i % kWidth] += rows[i] - mean[i % kWidth];
      most[i % kWidth] = std::max(most[i % kWidth], std::abs(rows[i]));
    }
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] = static_cast<float>(mean[i] + kBlend * sums[i] / kWindow);
  }
  const Statistics found = after(3, 1);
  for (std::size_t i = 0; i < mean.size(); ++i) EXPECT_NEAR(found.mean[i], mean[i], 1e-7) << i;
  EXPECT_EQ(found.most, most);
}

TEST(Statistics, NoWayToCutAWindowChangesABit) {
  const Statistics expected = after(3, 1);
  for (const std::int64_t rows : {2, 4, 8}) EXPECT_EQ(after(3, rows), expected) << rows;
}

// If the gradient is not finite, which only a loss scale allows, the window runs again or does not count.
TEST(Statistics, AWindowWithoutAGradientMovesNoMean) {
  EXPECT_EQ(after(1, 2, 0.5).mean, after(1, 2).mean);
  EXPECT_EQ(after(1, 2, HUGE_VAL).mean, Numbers(kWidth, 0));
  EXPECT_EQ(after(1, 2, HUGE_VAL).most, after(1, 2).most);
}

TEST(Statistics, HaveNoGradientAndNoState) {
  const Following model(2);
  for (const Value& value : model.graph.values) {
    const std::string& name = value.name;
    for (const char* statistic : {"mean.", "most."}) {
      if (name.starts_with(statistic)) EXPECT_EQ(name, "mean.deviations");
    }
  }
  for (const ValueId each : {model.mean, model.most, model.graph.find("mean.deviations")})
    EXPECT_EQ(model.graph.values[each].role, Role::statistic);
}

// The message, or nothing.
std::string refusal(Following& model) {
  try {
    add_training(model.graph, model.losses, {}, 1);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(Statistics, ATrainingPassReadsNoneThatItUpdatesInPlace) {
  Following model(2, false, false);
  ops::subtract_mean(model.builder, model.x, model.most, "less");
  EXPECT_NE(refusal(model).find("[model] subtract_mean reads most"), std::string::npos) << refusal(model);
}

TEST(Statistics, NothingElseIsUpdatedInAMicroStep) {
  Following model(2, false, false);
  model.graph.values[model.most].parameter->kind = ParameterKind::trained;
  EXPECT_NE(refusal(model).find("[model] largest_magnitude updates most"), std::string::npos) << refusal(model);
}

TEST(Statistics, AForwardPassChangesNone) {
  Following model(2, false, false);
  model.builder.begin_forward({"evaluate"});
  const ValueId x = model.builder.add_input("evaluate.x", {DType::f32, {2, kWidth}});
  ops::follow_magnitude(model.builder, x, model.most);
  EXPECT_NE(refusal(model).find("largest_magnitude changes most"), std::string::npos) << refusal(model);
}

// A mean that is trained would silently get no gradient.
TEST(Statistics, AMeanIsNotTrained) {
  Following model(2, false, false);
  model.graph.values[model.mean].parameter->kind = ParameterKind::trained;
  EXPECT_NE(refusal(model).find("subtract_mean has no gradient"), std::string::npos) << refusal(model);
}

}  // namespace
}  // namespace plimsoll::test
