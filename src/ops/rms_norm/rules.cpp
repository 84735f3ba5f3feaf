#include <fmt/core.h>

#include "ops/families.h"
#include "ops/rms_norm/cuda.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

// The type of rstd of x, one for each row as long as the weight.
ValueType rstd_of(const Shape& x, const ValueType& weight, const char* where) {
  require(weight.dtype == DType::f32 && weight.shape.rank() == 1 && weight.shape[0] > 0, where,
          "the weight is " + to_text(weight), "pass f32(row length)");
  require(x.rank() >= 1 && x.last() % weight.shape[0] == 0, where,
          fmt::format("weight has {} elements and x is {}", weight.shape[0], to_text(x)),
          "a last axis that is a multiple of the weight's length");
  return {DType::f32, Shape{x.elements() / weight.shape[0]}};
}

std::vector<ValueType> infer(const Attributes& any, TypeSpan inputs) {
  constexpr const char* kWhere = "rms_norm";
  require_inputs(inputs, 2, kWhere);
  require_computable(inputs[0], kWhere);
  const DType output = any.as<RmsNormAttributes>().output;
  require_computable(output, kWhere, "the output");
  return {{output, inputs[0].shape}, rstd_of(inputs[0].shape, inputs[1], kWhere)};
}

void gradient(GradientContext& context) {
  GraphBuilder& builder = context.builder();
  RmsNormBackwardAttributes attributes;
  attributes.output = context.node().attributes.as<RmsNormAttributes>().output;
  attributes.weight = context.wants(1);
  std::vector<ValueId> inputs{context.gradient(0), context.input(0), context.output(1), context.input(1)};
  if (!context.wants(0)) {
    inputs.pop_back();
    if (attributes.weight) context.contribute(1, kRmsNormWeightGradient, attributes, std::move(inputs));
    return;
  }
  const ValueId into = attributes.weight ? context.accumulator(1) : ValueId{};
  attributes.accumulate = into.valid();
  if (into.valid()) inputs.push_back(into);
  std::vector<std::string> names{"grad"};
  if (attributes.weight) names.emplace_back("weight.grad");
  const auto outputs = builder.add(kRmsNormBackward, attributes, std::move(inputs), std::move(names));
  context.contribute(0, outputs[0]);
  if (attributes.weight) context.contribute(1, outputs[1]);
}

std::vector<ValueType> infer_backward(const Attributes& any, TypeSpan inputs) {
  constexpr const char* kWhere = "rms_norm_backward";
  const auto& a = any.as<RmsNormBackwardAttributes>();
  require(a.weight || !a.accumulate, kWhere, "it accumulates no gradient", "the gradient of the weight");
  require_inputs(inputs, a.accumulate ? 5 : 4, kWhere);
  require_computable(inputs[1], kWhere);
  require_computable(a.output, kWhere, "the output");
  require_same(inputs[0], inputs[1], kWhere);
  require_type(inputs[2], rstd_of(inputs[1].shape, inputs[3], kWhere), kWhere, "rstd");
  if (a.accumulate) require_type(inputs[4], inputs[3], kWhere, "the accumulator");
  if (!a.weight) return {inputs[1]};
  return {inputs[1], inputs[3]};
}

std::vector<ValueType> infer_weight(const Attributes& any, TypeSpan inputs) {
  constexpr const char* kWhere = "rms_norm_weight_gradient";
  const auto& a = any.as<RmsNormBackwardAttributes>();
  require_inputs(inputs, a.accumulate ? 4 : 3, kWhere);
  for (const ValueType& each : inputs.first(2)) require_computable(each, kWhere);
  require_computable(a.output, kWhere, "the output");
  const Shape &x = inputs[1].shape, &rstd = inputs[2].shape;
  require(inputs[0].shape == x, kWhere, to_text(inputs[0]) + " flows into " + to_text(inputs[1]), "equal shapes");
  require(inputs[2].dtype == DType::f32 && rstd.rank() == 1 && rstd[0] > 0 && x.elements() % rstd[0] == 0, kWhere,
          fmt::format("rstd is {} and x is {}", to_text(inputs[2]), to_text(x)), "pass f32(rows)");
  const ValueType weight{DType::f32, Shape{x.elements() / rstd[0]}};
  require_type(inputs[2], rstd_of(x, weight, kWhere), kWhere, "rstd");
  if (a.accumulate) require_type(inputs[3], weight, kWhere, "the accumulator");
  return {weight};
}

std::vector<Alias> aliases_of_backward(const Attributes& any) {
  std::vector<Alias> aliases{{0, 0, AliasKind::may_overwrite}, {1, 0, AliasKind::may_overwrite}};
  if (any.as<RmsNormBackwardAttributes>().accumulate) aliases.push_back({4, 1, AliasKind::accumulates});
  return aliases;
}

constexpr std::size_t kRstd = 2;  // position among the inputs of both backward ops

}  // namespace

const OpDef kRmsNorm{.name = "rms_norm",
                     .infer = infer,
                     .cost = cost_per_element<4>,
                     .gradient = gradient,
                     .either = inputs_at<0>,
                     .rounded = with_output<RmsNormAttributes>};
const OpDef kRmsNormBackward{.name = "rms_norm_backward",
                             .infer = infer_backward,
                             .cost = cost_per_element<9>,
                             .not_differentiable = kFirstOrderOnly,
                             .aliases = aliases_of_backward,
                             .either = inputs_at<0, 1>,
                             .again = {kRstd, with_output<RmsNormBackwardAttributes>},
                             .alike = true};
const OpDef kRmsNormWeightGradient{.name = "rms_norm_weight_gradient",
                                   .infer = infer_weight,
                                   .cost = cost_per_element<3>,
                                   .not_differentiable = kFirstOrderOnly,
                                   .aliases = accumulates_if<RmsNormBackwardAttributes, 3>,
                                   .either = inputs_at<0, 1>,
                                   .again = {kRstd, with_output<RmsNormBackwardAttributes>}};

OpList rms_norm_ops() {
  return {{&kRmsNorm},
          {&kRmsNormBackward, {.scratch = cuda_rms_norm_scratch}},
          {&kRmsNormWeightGradient, {.scratch = cuda_rms_norm_scratch}}};
}

ValueId rms_norm(GraphBuilder& builder, ValueId x, ValueId weight, double epsilon) {
  return builder.add(kRmsNorm, RmsNormAttributes{epsilon}, {x, weight}, {"", "rstd"}).front();
}

}  // namespace plimsoll::ops
