#include <fmt/format.h>

#include "graph/gradient.h"
#include "ops/check.h"
#include "ops/families.h"
#include "ops/loss/cuda.h"
#include "ops/loss/loss.h"

namespace plimsoll::ops {
namespace {

void check(TypeSpan inputs) {
  const Shape &h = inputs[0].shape, &w = inputs[1].shape;
  const DType dtype = inputs[0].dtype;
  require(dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16, "linear_cross_entropy",
          fmt::format("h is {}", to_text(inputs[0])), "fp32, bf16 or fp16");
  const DType table = inputs[1].dtype;
  require(table == DType::f32 || table == dtype, "linear_cross_entropy", fmt::format("w is {}", to_text(inputs[1])),
          "fp32, or the width of h");
  require(h.rank() == 3 && w.rank() == 2 && h.last() == w.last(), "linear_cross_entropy",
          fmt::format("h is {} and w {}", to_text(h), to_text(w)), "pass (batch, tokens, width) and (vocabulary, width)");
  require_type(inputs[2], {DType::i32, {h[0], h[1]}}, "linear_cross_entropy", "targets");
  require_type(inputs[3], {DType::f32, Shape{1}}, "linear_cross_entropy", "inverse_units");
}

std::vector<ValueType> infer(const Attributes&, TypeSpan inputs) {
  require_inputs(inputs, 4, "linear_cross_entropy");
  check(inputs);
  return {{DType::f32, inputs[2].shape}};
}

std::vector<ValueType> infer_backward(const Attributes& any, TypeSpan inputs) {
  const bool accumulate = any.as<LossAttributes>().accumulate;
  require_inputs(inputs, accumulate ? 5 : 4, "linear_cross_entropy_backward");
  check(inputs);
  const ValueType of_table{DType::f32, inputs[1].shape};
  if (accumulate) require_type(inputs[4], of_table, "linear_cross_entropy_backward", "the accumulator");
  return {{DType::f32, inputs[2].shape}, {DType::f32, inputs[0].shape}, of_table};
}

template <int kProducts>
Cost cost(const Attributes&, TypeSpan inputs, TypeSpan outputs) {
  const double rows = static_cast<double>(rows_of(inputs[0].shape));
  return {2.0 * kProducts * rows * static_cast<double>(inputs[1].shape.elements()), bytes_touched(inputs, outputs),
          inputs[0].dtype};
}

void gradient(GradientContext& context) {
  const ValueId into = context.accumulator(1);
  std::vector<ValueId> inputs{context.input(0), context.input(1), context.input(2), context.input(3)};
  if (into.valid()) inputs.push_back(into);
  LossAttributes attributes = context.node().attributes.as<LossAttributes>();
  attributes.accumulate = into.valid();
  const auto outputs =
      context.builder().add(kLinearCrossEntropyBackward, attributes, std::move(inputs), {"losses", "grad", "weight.grad"});
  context.replace(0, outputs[0]);
  if (context.wants(0)) context.contribute(0, outputs[1]);
  if (context.wants(1)) context.contribute(1, outputs[2]);
}

// The table is rounded tile by tile, if it is not narrow itself.
std::vector<std::size_t> narrow(const Attributes&) { return {0}; }
std::vector<std::size_t> either(const Attributes&) { return {1}; }

RangeRule ranges(const Attributes&, TypeSpan inputs) { return {kTableRows * inputs[1].shape.last(), {1}}; }

// First for the losses, then for the gradients.
RangeRule ranges_of_backward(const Attributes& any, TypeSpan inputs) {
  RangeRule rule{kTableRows * inputs[1].shape.last(), {1}, 2};
  if (any.as<LossAttributes>().accumulate) rule.inputs.push_back(4);
  return rule;
}

std::vector<Alias> aliases_of_backward(const Attributes& any) {
  if (!any.as<LossAttributes>().accumulate) return {};
  return {{4, 2, AliasKind::updates}};
}

}  // namespace

const OpDef kLinearCrossEntropy{.name = "linear_cross_entropy",
                                .infer = infer,
                                .cost = cost<1>,
                                .gradient = gradient,
                                .ranges = ranges,
                                .narrow = narrow,
                                .either = either,
                                .costly = true,
                                .chunked = true};
const OpDef kLinearCrossEntropyBackward{.name = "linear_cross_entropy_backward",
                                        .infer = infer_backward,
                                        .cost = cost<3>,
                                        .not_differentiable = kFirstOrderOnly,
                                        .aliases = aliases_of_backward,
                                        .ranges = ranges_of_backward,
                                        .narrow = narrow,
                                        .either = either,
                                        .costly = true,
                                        .chunked = true};

// A GPU works on the whole vocabulary at once: a table that does not fit beside its tile fits no GPU.
OpList loss_ops() {
  return {{&kLinearCrossEntropy, {cuda_loss_scratch, true, true}},
          {&kLinearCrossEntropyBackward, {cuda_loss_scratch, true, true}}};
}

ValueId linear_cross_entropy(GraphBuilder& builder, ValueId h, ValueId w, ValueId targets, ValueId inverse_units,
                             const LossAttributes& attributes) {
  return builder.add1(kLinearCrossEntropy, attributes, {h, w, targets, inverse_units}, "losses");
}

}  // namespace plimsoll::ops
