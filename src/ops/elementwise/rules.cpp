#include "ops/rules.h"
#include "ops/elementwise/elementwise.h"
#include "ops/families.h"

namespace plimsoll::ops {
namespace {

std::vector<ValueType> infer_unary(const Attributes&, TypeSpan inputs) {
  require_inputs(inputs, 1, "elementwise");
  require_dtype(inputs, DType::f32, "elementwise");
  return {inputs[0]};
}

// Operands and results of activations have one type, of 32 or 16 bits.
template <std::size_t kInputs>
std::vector<ValueType> infer_activation(const Attributes&, TypeSpan inputs) {
  require_inputs(inputs, kInputs, "elementwise");
  require_computable(inputs[0], "elementwise");
  require_same(inputs[0], inputs[kInputs - 1], "elementwise");
  return {inputs[0]};
}

std::vector<ValueType> infer_binary(const Attributes&, TypeSpan inputs) {
  require_inputs(inputs, 2, "elementwise");
  require_dtype(inputs, DType::f32, "elementwise");
  require_same(inputs[0], inputs[1], "elementwise");
  return {inputs[0]};
}

std::vector<ValueType> infer_rounded(const Attributes&, TypeSpan inputs) {
  require_inputs(inputs, 3, "accumulate_rounded");
  require_dtype(inputs.first(1), DType::f32, "accumulate_rounded");
  require_type(inputs[1], {DType::u32, Shape{2}}, "accumulate_rounded", "the step");
  require_type(inputs[2], {DType::bf16, inputs[0].shape}, "accumulate_rounded", "the accumulator");
  return {inputs[2]};
}

void gradient_of_multiply(GradientContext& context) {
  for (const std::size_t i : {0, 1}) {
    context.contribute_if_wanted(i, kMultiply, NoAttributes{}, {context.gradient(0), context.input(1 - i)});
  }
}

void gradient_of_scale(GradientContext& context) {
  context.contribute_if_wanted(0, kScale, context.node().attributes, {context.gradient(0)});
}

template <const OpDef* kBackward>
void gradient_of_activation(GradientContext& context) {
  context.contribute_if_wanted(0, *kBackward, NoAttributes{}, {context.gradient(0), context.input(0)});
}

OpDef elementwise(std::string_view name, OpDef op) {
  op.name = name;
  op.elementwise = true;
  return op;
}

}  // namespace

const OpDef kAdd =
    elementwise("add", {.infer = infer_binary, .cost = cost_per_element<1>, .gradient = gradient_of_sum, .aliases = over<0, 1>});
const OpDef kMultiply = elementwise(
    "multiply", {.infer = infer_binary, .cost = cost_per_element<1>, .gradient = gradient_of_multiply, .aliases = over<0, 1>});
const OpDef kScale =
    elementwise("scale", {.infer = infer_unary, .cost = cost_per_element<1>, .gradient = gradient_of_scale, .aliases = over<0>});
const OpDef kGelu = elementwise("gelu", {.infer = infer_activation<1>,
                                         .cost = cost_per_element<20>,
                                         .gradient = gradient_of_activation<&kGeluBackward>,
                                         .aliases = over<0>,
                                         .either = inputs_at<0>,
                                         .alike = true});
const OpDef kGeluBackward = elementwise("gelu_backward", {.infer = infer_activation<2>,
                                                          .cost = cost_per_element<30>,
                                                          .not_differentiable = kFirstOrderOnly,
                                                          .aliases = over<0, 1>,
                                                          .either = inputs_at<0, 1>,
                                                          .alike = true});
const OpDef kRelu = elementwise("relu", {.infer = infer_activation<1>,
                                         .cost = cost_per_element<1>,
                                         .gradient = gradient_of_activation<&kReluBackward>,
                                         .aliases = over<0>,
                                         .either = inputs_at<0>,
                                         .alike = true});
const OpDef kReluBackward = elementwise("relu_backward", {.infer = infer_activation<2>,
                                                          .cost = cost_per_element<1>,
                                                          .not_differentiable = kFirstOrderOnly,
                                                          .aliases = over<0, 1>,
                                                          .either = inputs_at<0, 1>,
                                                          .alike = true});
const OpDef kAccumulate = elementwise(
    "accumulate",
    {.infer = infer_binary, .cost = cost_per_element<1>, .not_differentiable = kFirstOrderOnly, .aliases = accumulates_into<1>});

const OpDef kAccumulateRounded{.name = "accumulate_rounded",
                               .infer = infer_rounded,
                               .cost = cost_per_element<3>,
                               .not_differentiable = kFirstOrderOnly,
                               .aliases = accumulates_into<2>};

OpList elementwise_ops() {
  return {{&kAdd},        {&kMultiply},         {&kScale}, {&kGelu}, {&kGeluBackward}, {&kRelu}, {&kReluBackward},
          {&kAccumulate}, {&kAccumulateRounded}};
}

ValueId add(GraphBuilder& builder, ValueId a, ValueId b, std::string name) {
  return builder.add1(kAdd, NoAttributes{}, {a, b}, std::move(name));
}

ValueId gelu(GraphBuilder& builder, ValueId x, std::string name) {
  return builder.add1(kGelu, NoAttributes{}, {x}, std::move(name));
}

}  // namespace plimsoll::ops
