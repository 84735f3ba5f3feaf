#include <fmt/core.h>

#include "ops/cross_entropy/cross_entropy.h"
#include "ops/families.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

// Returns the shape of the labels.
Shape check(const Attributes& any, TypeSpan inputs, std::string_view where) {
  require_inputs(inputs, 3, where);
  require_dtype(inputs.first(1), DType::f32, where);
  const Shape& logits = inputs[0].shape;
  require(logits.rank() >= 2 && logits.last() >= 1, where, fmt::format("logits is {}", to_text(inputs[0])),
          "pass (rows, classes), or more axes before the classes");
  Shape rows = logits;
  rows.pop_back();
  require_type(inputs[1], {DType::i32, rows}, where, "labels");
  require_type(inputs[2], {DType::f32, Shape{1}}, where, "scale");
  const double smoothing = any.as<CrossEntropyAttributes>().label_smoothing;
  require(smoothing >= 0 && smoothing <= 1, where, fmt::format("label_smoothing is {}", smoothing), "a number from 0 to 1");
  return rows;
}

std::vector<ValueType> infer(const Attributes& attributes, TypeSpan inputs) {
  return {{DType::f32, check(attributes, inputs, "cross_entropy")}};
}

std::vector<ValueType> infer_backward(const Attributes& attributes, TypeSpan inputs) {
  check(attributes, inputs, "cross_entropy_backward");
  return {inputs[0]};
}

void gradient(GradientContext& context) {
  require_root(context);
  context.contribute_if_wanted(0, kCrossEntropyBackward, context.node().attributes,
                               {context.input(0), context.input(1), context.input(2)});
}

}  // namespace

const OpDef kCrossEntropy{.name = "cross_entropy", .infer = infer, .cost = cost_per_element<20>, .gradient = gradient};
const OpDef kCrossEntropyBackward{.name = "cross_entropy_backward",
                                  .infer = infer_backward,
                                  .cost = cost_per_element<20>,
                                  .not_differentiable = kFirstOrderOnly,
                                  .aliases = over<0>};

OpList cross_entropy_ops() { return {{&kCrossEntropy}, {&kCrossEntropyBackward}}; }

ValueId cross_entropy(GraphBuilder& builder, ValueId logits, ValueId labels, ValueId scale,
                      const CrossEntropyAttributes& attributes) {
  return builder.add1(kCrossEntropy, attributes, {logits, labels, scale}, "losses");
}

}  // namespace plimsoll::ops
