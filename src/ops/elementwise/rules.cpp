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

using CostRule = Cost (*)(const Attributes&, TypeSpan, TypeSpan);

// y = f(x), and dx from dy and x.
OpDef activation(std::string_view name, void (*gradient)(GradientContext&), CostRule cost) {
  return elementwise(name, {.infer = infer_activation<1>,
                            .cost = cost,
                            .gradient = gradient,
                            .aliases = over<0>,
                            .either = inputs_at<0>,
                            .alike = true});
}
OpDef backward_of_activation(std::string_view name, CostRule cost) {
  return elementwise(name, {.infer = infer_activation<2>,
                            .cost = cost,
                            .not_differentiable = kFirstOrderOnly,
                            .aliases = over<0, 1>,
                            .either = inputs_at<0, 1>,
                            .alike = true});
}

}  // namespace

const OpDef kAdd =
    elementwise("add", {.infer = infer_binary, .cost = cost_per_element<1>, .gradient = gradient_of_sum, .aliases = over<0, 1>});
const OpDef kMultiply = elementwise(
    "multiply", {.infer = infer_binary, .cost = cost_per_element<1>, .gradient = gradient_of_multiply, .aliases = over<0, 1>});
const OpDef kScale =
    elementwise("scale", {.infer = infer_unary, .cost = cost_per_element<1>, .gradient = gradient_of_scale, .aliases = over<0>});
const OpDef kGelu = activation("gelu", gradient_of_activation<&kGeluBackward>, cost_per_element<20>);
const OpDef kGeluBackward = backward_of_activation("gelu_backward", cost_per_element<30>);
const OpDef kRelu = activation("relu", gradient_of_activation<&kReluBackward>, cost_per_element<1>);
const OpDef kReluBackward = backward_of_activation("relu_backward", cost_per_element<1>);
const OpDef kRelu6 = activation("relu6", gradient_of_activation<&kRelu6Backward>, cost_per_element<2>);
const OpDef kRelu6Backward = backward_of_activation("relu6_backward", cost_per_element<2>);
const OpDef kSilu = activation("silu", gradient_of_activation<&kSiluBackward>, cost_per_element<20>);
const OpDef kSiluBackward = backward_of_activation("silu_backward", cost_per_element<30>);
const OpDef kGeluErf = activation("gelu_erf", gradient_of_activation<&kGeluErfBackward>, cost_per_element<20>);
const OpDef kGeluErfBackward = backward_of_activation("gelu_erf_backward", cost_per_element<30>);
const OpDef kAccumulate = elementwise(
    "accumulate",
    {.infer = infer_binary, .cost = cost_per_element<1>, .not_differentiable = kFirstOrderOnly, .aliases = accumulates_into<1>});

const OpDef kAccumulateRounded{.name = "accumulate_rounded",
                               .infer = infer_rounded,
                               .cost = cost_per_element<3>,
                               .not_differentiable = kFirstOrderOnly,
                               .aliases = accumulates_into<2>};

OpList elementwise_ops() {
  return {{&kAdd},          {&kMultiply},      {&kScale},
          {&kGelu},         {&kGeluBackward},  {&kRelu},
          {&kReluBackward}, {&kAccumulate},    {&kAccumulateRounded},
          {&kRelu6},        {&kRelu6Backward}, {&kSilu},
          {&kSiluBackward}, {&kGeluErf},       {&kGeluErfBackward}};
}

ValueId add(GraphBuilder& builder, ValueId a, ValueId b, std::string name) {
  return builder.add1(kAdd, NoAttributes{}, {a, b}, std::move(name));
}

ValueId gelu(GraphBuilder& builder, ValueId x, std::string name) {
  return builder.add1(kGelu, NoAttributes{}, {x}, std::move(name));
}

ValueId gelu_erf(GraphBuilder& builder, ValueId x, std::string name) {
  return builder.add1(kGeluErf, NoAttributes{}, {x}, std::move(name));
}

ValueId silu(GraphBuilder& builder, ValueId x, std::string name) {
  return builder.add1(kSilu, NoAttributes{}, {x}, std::move(name));
}

}  // namespace plimsoll::ops
