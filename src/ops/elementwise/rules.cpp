#include "graph/gradient.h"
#include "ops/check.h"
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

std::vector<std::size_t> first(const Attributes&) { return {0}; }
std::vector<std::size_t> both(const Attributes&) { return {0, 1}; }

std::vector<ValueType> infer_binary(const Attributes&, TypeSpan inputs) {
  require_inputs(inputs, 2, "elementwise");
  require_dtype(inputs, DType::f32, "elementwise");
  require_same(inputs[0], inputs[1], "elementwise");
  return {inputs[0]};
}

template <int kFlops>
Cost cost(const Attributes&, TypeSpan inputs, TypeSpan outputs) {
  return {kFlops * static_cast<double>(outputs[0].shape.elements()), bytes_touched(inputs, outputs)};
}

std::vector<ValueType> infer_rounded(const Attributes&, TypeSpan inputs) {
  require_inputs(inputs, 3, "accumulate_rounded");
  require_dtype(inputs.first(1), DType::f32, "accumulate_rounded");
  require_type(inputs[1], {DType::u32, Shape{2}}, "accumulate_rounded", "the step");
  require_type(inputs[2], {DType::bf16, inputs[0].shape}, "accumulate_rounded", "the accumulator");
  return {inputs[2]};
}

std::vector<Alias> into_third(const Attributes&) { return {{2, 0, AliasKind::accumulates}}; }

std::vector<Alias> over_first(const Attributes&) { return {{0, 0, AliasKind::may_overwrite}}; }
std::vector<Alias> over_either(const Attributes&) { return {{0, 0, AliasKind::may_overwrite}, {1, 0, AliasKind::may_overwrite}}; }

void gradient_of_add(GradientContext& context) {
  for (const std::size_t i : {0, 1}) {
    if (context.wants(i)) context.contribute(i, context.gradient(0));
  }
}

void gradient_of_multiply(GradientContext& context) {
  for (const std::size_t i : {0, 1}) {
    if (!context.wants(i)) continue;
    const ValueId other = context.input(1 - i);
    context.contribute(i, context.builder().add1(kMultiply, NoAttributes{}, {context.gradient(0), other}, "grad"));
  }
}

void gradient_of_scale(GradientContext& context) {
  if (!context.wants(0)) return;
  context.contribute(0, context.builder().add1(kScale, context.node().attributes, {context.gradient(0)}, "grad"));
}

template <const OpDef* kBackward>
void gradient_of_activation(GradientContext& context) {
  if (!context.wants(0)) return;
  context.contribute(0, context.builder().add1(*kBackward, NoAttributes{}, {context.gradient(0), context.input(0)}, "grad"));
}

std::vector<Alias> into_second(const Attributes&) { return {{1, 0, AliasKind::accumulates}}; }

OpDef elementwise(std::string_view name, OpDef op) {
  op.name = name;
  op.elementwise = true;
  return op;
}

}  // namespace

const OpDef kAdd =
    elementwise("add", {.infer = infer_binary, .cost = cost<1>, .gradient = gradient_of_add, .aliases = over_either});
const OpDef kMultiply =
    elementwise("multiply", {.infer = infer_binary, .cost = cost<1>, .gradient = gradient_of_multiply, .aliases = over_either});
const OpDef kScale =
    elementwise("scale", {.infer = infer_unary, .cost = cost<1>, .gradient = gradient_of_scale, .aliases = over_first});
const OpDef kGelu = elementwise("gelu", {.infer = infer_activation<1>,
                                         .cost = cost<20>,
                                         .gradient = gradient_of_activation<&kGeluBackward>,
                                         .aliases = over_first,
                                         .either = first,
                                         .alike = true});
const OpDef kGeluBackward = elementwise("gelu_backward", {.infer = infer_activation<2>,
                                                          .cost = cost<30>,
                                                          .not_differentiable = kFirstOrderOnly,
                                                          .aliases = over_either,
                                                          .either = both,
                                                          .alike = true});
const OpDef kRelu = elementwise("relu", {.infer = infer_activation<1>,
                                         .cost = cost<1>,
                                         .gradient = gradient_of_activation<&kReluBackward>,
                                         .aliases = over_first,
                                         .either = first,
                                         .alike = true});
const OpDef kReluBackward = elementwise("relu_backward", {.infer = infer_activation<2>,
                                                          .cost = cost<1>,
                                                          .not_differentiable = kFirstOrderOnly,
                                                          .aliases = over_either,
                                                          .either = both,
                                                          .alike = true});
const OpDef kAccumulate = elementwise(
    "accumulate", {.infer = infer_binary, .cost = cost<1>, .not_differentiable = kFirstOrderOnly, .aliases = into_second});

const OpDef kAccumulateRounded{.name = "accumulate_rounded",
                               .infer = infer_rounded,
                               .cost = cost<3>,
                               .not_differentiable = kFirstOrderOnly,
                               .aliases = into_third};

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
