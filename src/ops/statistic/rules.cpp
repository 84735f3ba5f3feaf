#include <fmt/core.h>

#include "ops/families.h"
#include "ops/rules.h"
#include "ops/statistic/statistic.h"
#include "ops/update/update.h"

namespace plimsoll::ops {
namespace {

constexpr std::string_view kStatistics = "its result is a statistic, which has no gradient";

ValueType sums_of(const ValueType& row) { return {DType::f64, Shape{row.shape.last() + 1}}; }

std::vector<ValueType> infer_subtract(const Attributes&, TypeSpan inputs) {
  require_inputs(inputs, 2, "subtract_mean");
  require_dtype(inputs, DType::f32, "subtract_mean");
  require_type(inputs[1], row_of(inputs[0], "subtract_mean"), "subtract_mean", "the mean");
  return {inputs[0]};
}

std::vector<ValueType> infer_deviations(const Attributes& any, TypeSpan inputs) {
  require_inputs(inputs, 3, "deviations");
  const double blend = any.as<MovingMeanAttributes>().blend;
  require(blend > 0 && blend <= 1, "deviations", fmt::format("blend is {}", blend), "above 0, at most 1");
  const ValueType row = row_of(inputs[0], "deviations");
  require_type(inputs[1], row, "deviations", "the mean");
  require_type(inputs[2], sums_of(row), "deviations", "the sums");
  return {inputs[2]};
}

std::vector<ValueType> infer_moving_mean(const Attributes&, TypeSpan inputs) {
  require_guarded_inputs(inputs, 2, "moving_mean");
  const ValueType row = row_of(inputs[0], "moving_mean");
  require_type(inputs[0], row, "moving_mean", "the mean");
  require_type(inputs[1], sums_of(row), "moving_mean", "the sums");
  return {inputs[0]};
}

std::vector<ValueType> infer_magnitude(const Attributes&, TypeSpan inputs) {
  require_inputs(inputs, 2, "largest_magnitude");
  require_type(inputs[1], row_of(inputs[0], "largest_magnitude"), "largest_magnitude", "the statistic");
  return {inputs[1]};
}

std::vector<ValueType> infer_average(const Attributes& any, TypeSpan inputs) {
  constexpr const char* kWhere = "average_statistic";
  require_guarded_inputs(inputs, 3, kWhere);
  const double blend = any.as<AverageAttributes>().blend;
  require(blend > 0 && blend <= 1, kWhere, fmt::format("blend is {}", blend), "above 0, at most 1");
  require_dtype(inputs.first(2), DType::f32, kWhere);
  require_type(inputs[1], inputs[0], kWhere, "the statistic");
  require_type(inputs[2], {DType::f64, Shape{kUpdateScalars}}, kWhere, "the scalars");
  return {inputs[0]};
}

void gradient_of_subtract(GradientContext& context) {
  if (context.wants(1)) {
    throw config_error("E-GRADIENT", context.node().line, "subtract_mean has no gradient for a mean that is trained",
                       "a statistic");
  }
  if (context.wants(0)) context.contribute(0, context.gradient(0));
}

void move_at_update(const WindowEnd& end) {
  const ValueId mean = end.node.inputs[1], sums = end.node.inputs[2];
  std::vector<ValueId> inputs{mean, sums};
  if (end.coefficient.valid()) inputs.push_back(end.coefficient);
  const ValueId moved = end.builder.add1(kMovingMean, end.node.attributes, std::move(inputs), "moved");
  end.builder.rename(moved, end.builder.value(mean).name);
}

}  // namespace

const OpDef kSubtractMean{.name = "subtract_mean",
                          .infer = infer_subtract,
                          .cost = cost_per_element<2>,
                          .gradient = gradient_of_subtract,
                          .aliases = over<0>};
const OpDef kDeviations{.name = "deviations",
                        .infer = infer_deviations,
                        .cost = cost_per_element<2>,
                        .not_differentiable = kStatistics,
                        .at_update = move_at_update,
                        .aliases = accumulates_into<2>,
                        .either = inputs_at<0>,
                        .replayable = false};
const OpDef kMovingMean{.name = "moving_mean",
                        .infer = infer_moving_mean,
                        .cost = cost_per_element<2>,
                        .not_differentiable = kUpdateOnly,
                        .aliases = updates<0>,
                        .replayable = false};
const OpDef kLargestMagnitude{.name = "largest_magnitude",
                              .infer = infer_magnitude,
                              .cost = cost_per_element<2>,
                              .not_differentiable = kStatistics,
                              .aliases = updates<1>,
                              .either = inputs_at<0>,
                              .replayable = false};
const OpDef kAverageStatistic{.name = "average_statistic",
                              .infer = infer_average,
                              .cost = cost_per_element<3>,
                              .not_differentiable = kUpdateOnly,
                              .aliases = updates<0>,
                              .replayable = false};

OpList statistic_ops() { return {{&kSubtractMean}, {&kDeviations}, {&kMovingMean}, {&kLargestMagnitude}, {&kAverageStatistic}}; }

ValueId add_statistic(GraphBuilder& builder, std::string name, std::int64_t n, Initializer initializer) {
  return builder.add_parameter(std::move(name),
                               {.shape = Shape{n}, .initializer = initializer, .kind = ParameterKind::statistic});
}

ValueId subtract_mean(GraphBuilder& builder, ValueId x, ValueId mean, std::string name) {
  return builder.add1(kSubtractMean, NoAttributes{}, {x, mean}, std::move(name));
}

void follow_mean(GraphBuilder& builder, ValueId x, ValueId mean, const MovingMeanAttributes& attributes) {
  const ValueId sums = builder.add_persistent(builder.value(mean).name + ".deviations",
                                              {DType::f64, Shape{builder.shape(mean).last() + 1}}, Role::statistic);
  builder.add1(kDeviations, attributes, {x, mean, sums}, "deviations");
}

void follow_magnitude(GraphBuilder& builder, ValueId x, ValueId most) {
  const ValueId now = builder.add1(kLargestMagnitude, NoAttributes{}, {x, most}, "magnitude");
  builder.rename(now, builder.value(most).name);
}

}  // namespace plimsoll::ops
