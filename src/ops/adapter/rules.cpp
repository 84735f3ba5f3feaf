#include <fmt/core.h>

#include "ops/adapter/adapter.h"
#include "ops/adapter/cuda.h"
#include "ops/families.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

std::vector<ValueType> infer_sum(const Attributes&, TypeSpan inputs) {
  require_inputs(inputs, 2, "sum_paths");
  require_computable(inputs[0], "sum_paths");
  require_same(inputs[0], inputs[1], "sum_paths");
  return {inputs[0]};
}

std::vector<ValueType> infer_magnitude(const Attributes& any, TypeSpan inputs) {
  const bool bias = any.as<MagnitudeAttributes>().bias;
  require_inputs(inputs, 3 + std::size_t{bias}, "magnitude");
  const ValueType row = row_of(inputs[0], "magnitude");
  require_type(inputs[1], row, "magnitude", "the magnitudes");
  require_type(inputs[2], row, "magnitude", "the norms");
  if (bias) require_type(inputs[3], row, "magnitude", "the bias");
  return {inputs[0]};
}

std::vector<ValueType> infer_magnitude_backward(const Attributes& any, TypeSpan inputs) {
  const auto& a = any.as<MagnitudeAttributes>();
  require_inputs(inputs, 3 + std::size_t{a.bias} + std::size_t{a.accumulate}, "magnitude_backward");
  const ValueType row = row_of(inputs[1], "magnitude_backward");
  require_computable(inputs[0], "magnitude_backward");
  require(inputs[0].shape == inputs[1].shape, "magnitude_backward", "dy is " + to_text(inputs[0]), to_text(inputs[1]));
  for (std::size_t i = 2; i < inputs.size(); ++i)
    require_type(inputs[i], row, "magnitude_backward", "an operand with one number for each column");
  return {row};
}

std::vector<ValueType> infer_row_norms(const Attributes& any, TypeSpan inputs) {
  require_inputs(inputs, 4, "row_norms");
  const auto& attributes = any.as<RowNormAttributes>();
  if (!attributes.blocks) require_computable(inputs[1], "row_norms");
  const Shape w = table_shape(attributes.blocks, inputs[1], "row_norms"), &a = inputs[2].shape;
  require(w.rank() == 2 && a.rank() == 2, "row_norms", fmt::format("W is {} and A {}", to_text(w), to_text(a)), "matrices");
  const bool inputs_first = attributes.inputs_first;
  const std::int64_t rows = w[inputs_first ? 1 : 0], columns = w[inputs_first ? 0 : 1];
  require_type(inputs[0], {DType::f32, Shape{rows}}, "row_norms", "the norms");
  require_type(inputs[2], {DType::f32, {a[0], columns}}, "row_norms", "A");
  require_type(inputs[3], {DType::f32, {rows, a[0]}}, "row_norms", "B");
  return {inputs[0]};
}

Cost cost_of_norms(const Attributes&, TypeSpan inputs, TypeSpan outputs) {
  const Shape &a = inputs[2].shape, &b = inputs[3].shape;
  const double rank = static_cast<double>(a[0]), elements = static_cast<double>(a[1]) * static_cast<double>(b[0]);
  return {(2 * rank + 4) * elements, bytes_touched(inputs, outputs)};
}

void gradient_of_magnitude(GradientContext& context) {
  const auto& a = context.node().attributes.as<MagnitudeAttributes>();
  if (context.wants(2) || (a.bias && context.wants(3))) {
    throw config_error("E-GRADIENT", context.node().line, "magnitude has no gradient for norms or a bias that are trained",
                       "a bias that is frozen");
  }
  const ValueId dy = context.gradient(0);
  if (context.wants(1)) {
    std::vector<ValueId> inputs{dy, context.input(0), context.input(2)};
    if (a.bias) inputs.push_back(context.input(3));
    context.contribute(1, kMagnitudeBackward, a, std::move(inputs));
  }
  context.contribute_if_wanted(0, kMagnitude, MagnitudeAttributes{}, {dy, context.input(1), context.input(2)});
}

// Ranges of whole tiles. Bytes of blocks have ranges of any cut, with a first pass for scales that follow all codes.
RangeRule ranges_of_norms(const Attributes& any, TypeSpan) {
  const auto& blocks = any.as<RowNormAttributes>().blocks;
  if (!blocks) return {kNormTile, {1}};
  return {1, {1}, scales_apart(blocks->format) ? 2 : 1};
}

std::vector<Alias> into_last(const Attributes& any) {
  const auto& a = any.as<MagnitudeAttributes>();
  if (!a.accumulate) return {};
  return {{3 + std::size_t{a.bias}, 0, AliasKind::accumulates}};
}

}  // namespace

const OpDef kSumPaths{.name = "sum_paths",
                      .infer = infer_sum,
                      .cost = cost_per_element<1>,
                      .gradient = gradient_of_sum,
                      .aliases = over<0, 1>,
                      .either = inputs_at<0, 1>,
                      .elementwise = true,
                      .alike = true};
const OpDef kMagnitude{.name = "magnitude",
                       .infer = infer_magnitude,
                       .cost = cost_per_element<4>,
                       .gradient = gradient_of_magnitude,
                       .aliases = over<0>,
                       .either = inputs_at<0>,
                       .alike = true};
const OpDef kMagnitudeBackward{.name = "magnitude_backward",
                               .infer = infer_magnitude_backward,
                               .cost = cost_per_element<4>,
                               .not_differentiable = kFirstOrderOnly,
                               .aliases = into_last,
                               .either = inputs_at<0, 1>};
const OpDef kRowNorms{.name = "row_norms",
                      .infer = infer_row_norms,
                      .cost = cost_of_norms,
                      .not_differentiable = kUpdateOnly,
                      .aliases = updates<0>,
                      .ranges = ranges_of_norms,
                      .reads_stored = reads_table<&kRowNorms, RowNormAttributes>,
                      .either = inputs_at<1>,
                      .replayable = false};

OpList adapter_ops() {
  return {{&kSumPaths},
          {&kMagnitude},
          {&kMagnitudeBackward, {.scratch = cuda_magnitude_scratch}},
          {&kRowNorms, {.scratch = cuda_row_norms_scratch, .launches = cuda_row_norms_launches}}};
}

ValueId sum_paths(GraphBuilder& builder, ValueId x, ValueId y, std::string name) {
  return builder.add1(kSumPaths, NoAttributes{}, {x, y}, std::move(name));
}

ValueId magnitude(GraphBuilder& builder, ValueId x, ValueId m, ValueId norms, ValueId bias, std::string name) {
  std::vector<ValueId> inputs{x, m, norms};
  if (bias.valid()) inputs.push_back(bias);
  return builder.add1(kMagnitude, MagnitudeAttributes{.bias = bias.valid()}, std::move(inputs), std::move(name));
}

}  // namespace plimsoll::ops
