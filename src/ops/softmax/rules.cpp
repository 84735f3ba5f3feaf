#include "ops/rules.h"
#include "ops/families.h"
#include "ops/softmax/softmax.h"

namespace plimsoll::ops {
namespace {

std::vector<ValueType> infer(const Attributes&, TypeSpan inputs) {
  require_inputs(inputs, 1, "softmax");
  require_dtype(inputs, DType::f32, "softmax");
  require(inputs[0].shape.rank() >= 1, "softmax", "the input is a scalar", "it needs an axis");
  return {inputs[0]};
}

std::vector<ValueType> infer_backward(const Attributes&, TypeSpan inputs) {
  require_inputs(inputs, 2, "softmax_backward");
  require_dtype(inputs, DType::f32, "softmax_backward");
  require_same(inputs[0], inputs[1], "softmax_backward");
  return {inputs[0]};
}

void gradient(GradientContext& context) {
  context.contribute_if_wanted(0, kSoftmaxBackward, NoAttributes{}, {context.gradient(0), context.output(0)});
}

}  // namespace

const OpDef kSoftmax{.name = "softmax", .infer = infer, .cost = cost_per_element<20>, .gradient = gradient};
const OpDef kSoftmaxBackward{
    .name = "softmax_backward", .infer = infer_backward, .cost = cost_per_element<20>, .not_differentiable = kFirstOrderOnly};

OpList softmax_ops() { return {{&kSoftmax}, {&kSoftmaxBackward}}; }

ValueId softmax(GraphBuilder& builder, ValueId x, std::string name) {
  return builder.add1(kSoftmax, NoAttributes{}, {x}, std::move(name));
}

}  // namespace plimsoll::ops
