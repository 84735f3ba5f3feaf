#include "ops/rules.h"
#include "ops/families.h"
#include "ops/squared_error/squared_error.h"

namespace plimsoll::ops {
namespace {

std::vector<ValueType> infer_as(TypeSpan inputs, std::string_view where) {
  require_inputs(inputs, 3, where);
  require_dtype(inputs, DType::f32, where);
  require_same(inputs[0], inputs[1], where);
  require_type(inputs[2], {DType::f32, Shape{1}}, where, "scale");
  return {inputs[0]};
}

std::vector<ValueType> infer(const Attributes&, TypeSpan inputs) { return infer_as(inputs, "squared_error"); }
std::vector<ValueType> infer_backward(const Attributes&, TypeSpan inputs) { return infer_as(inputs, "squared_error_backward"); }

void gradient(GradientContext& context) {
  require_root(context);
  if (context.wants(1)) {
    throw config_error("E-GRADIENT", context.node().line, "the target of squared_error has no gradient",
                       "a target that depends on no parameter");
  }
  context.contribute_if_wanted(0, kSquaredErrorBackward, NoAttributes{}, {context.input(0), context.input(1), context.input(2)});
}

}  // namespace

const OpDef kSquaredError{
    .name = "squared_error", .infer = infer, .cost = cost_per_element<3>, .gradient = gradient, .aliases = over<0, 1>};
const OpDef kSquaredErrorBackward{.name = "squared_error_backward",
                                  .infer = infer_backward,
                                  .cost = cost_per_element<3>,
                                  .not_differentiable = kFirstOrderOnly,
                                  .aliases = over<0, 1>};

OpList squared_error_ops() { return {{&kSquaredError}, {&kSquaredErrorBackward}}; }

ValueId squared_error(GraphBuilder& builder, ValueId prediction, ValueId target, ValueId scale) {
  return builder.add1(kSquaredError, NoAttributes{}, {prediction, target, scale}, "losses");
}

}  // namespace plimsoll::ops
