#include <fmt/core.h>

#include "ops/families.h"
#include "ops/loss/cuda.h"
#include "ops/loss/loss.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

// The shape of w in any format.
Shape table_of(const LossAttributes& attributes, TypeSpan inputs) {
  return table_shape(attributes.blocks, inputs[1], "linear_cross_entropy");
}

void check(const LossAttributes& attributes, TypeSpan inputs) {
  const Shape &h = inputs[0].shape, w = table_of(attributes, inputs);
  require_computable(inputs[0], "linear_cross_entropy", "h");
  const DType table = inputs[1].dtype;
  const bool fits = attributes.blocks || table == DType::f32 || table == DType::bf16 || table == inputs[0].dtype;
  require(fits, "linear_cross_entropy", fmt::format("w is {}", to_text(inputs[1])), "fp32 or bf16, or the width of h");
  require(h.rank() == 3 && w.rank() == 2 && h.last() == w.last(), "linear_cross_entropy",
          fmt::format("h is {} and w {}", to_text(h), to_text(w)), "pass (batch, tokens, width) and (vocabulary, width)");
  require_type(inputs[2], {DType::i32, {h[0], h[1]}}, "linear_cross_entropy", "targets");
  require_type(inputs[3], {DType::f32, Shape{1}}, "linear_cross_entropy", "inverse_units");
}

std::vector<ValueType> infer(const Attributes& any, TypeSpan inputs) {
  require_inputs(inputs, 4, "linear_cross_entropy");
  check(any.as<LossAttributes>(), inputs);
  return {{DType::f32, inputs[2].shape}};
}

std::vector<ValueType> infer_backward(const Attributes& any, TypeSpan inputs) {
  const auto& attributes = any.as<LossAttributes>();
  require_inputs(inputs, attributes.accumulate ? 5 : 4, "linear_cross_entropy_backward");
  check(attributes, inputs);
  std::vector<ValueType> outputs{{DType::f32, inputs[2].shape}};
  if (attributes.h) outputs.push_back({DType::f32, inputs[0].shape});
  const ValueType of_table{DType::f32, table_of(attributes, inputs)};
  require(!attributes.blocks || !attributes.w, "linear_cross_entropy_backward", "w is stored in blocks", "no gradient of it");
  if (attributes.accumulate) require_type(inputs[4], of_table, "linear_cross_entropy_backward", "the accumulator");
  if (attributes.w) outputs.push_back(of_table);
  return outputs;
}

// The number of products: the logits, and each gradient.
int products_of_backward(const LossAttributes& attributes) { return 1 + int{attributes.h} + int{attributes.w}; }

Cost cost_of(int products, const LossAttributes& attributes, TypeSpan inputs, TypeSpan outputs) {
  const double rows = static_cast<double>(rows_of(inputs[0].shape));
  return {2.0 * products * rows * static_cast<double>(table_of(attributes, inputs).elements()), bytes_touched(inputs, outputs),
          inputs[0].dtype};
}
Cost cost(const Attributes& any, TypeSpan inputs, TypeSpan outputs) {
  return cost_of(1, any.as<LossAttributes>(), inputs, outputs);
}
Cost cost_of_backward(const Attributes& any, TypeSpan inputs, TypeSpan outputs) {
  const auto& attributes = any.as<LossAttributes>();
  return cost_of(products_of_backward(attributes), attributes, inputs, outputs);
}

void gradient(GradientContext& context) {
  require_root(context);
  LossAttributes attributes = context.node().attributes.as<LossAttributes>();
  attributes.h = context.wants(0);
  attributes.w = context.wants(1);
  if (!attributes.h && !attributes.w) return;
  const ValueId into = attributes.w ? context.accumulator(1) : ValueId{};
  std::vector<ValueId> inputs{context.input(0), context.input(1), context.input(2), context.input(3)};
  if (into.valid()) inputs.push_back(into);
  attributes.accumulate = into.valid();
  std::vector<std::string> names{"losses"};
  if (attributes.h) names.emplace_back("grad");
  if (attributes.w) names.emplace_back("weight.grad");
  const auto outputs = context.replace(kLinearCrossEntropyBackward, attributes, std::move(inputs), std::move(names));
  if (attributes.h) context.contribute(0, outputs[1]);
  if (attributes.w) context.contribute(1, outputs[attributes.of_w()]);
}

// Two passes: for the losses, then for the gradients.
RangeRule ranges_of_backward(const Attributes& any, TypeSpan inputs) {
  RangeRule rule = ranges_of_table<LossAttributes>(any, inputs);
  if (rule.inputs.empty()) return rule;
  rule.passes = 2;
  if (any.as<LossAttributes>().accumulate) rule.inputs.push_back(4);
  return rule;
}

std::vector<Alias> aliases_of_backward(const Attributes& any) {
  const auto& attributes = any.as<LossAttributes>();
  if (!attributes.accumulate) return {};
  return {{4, attributes.of_w(), AliasKind::accumulates}};
}

}  // namespace

const OpDef kLinearCrossEntropy{.name = "linear_cross_entropy",
                                .infer = infer,
                                .cost = cost,
                                .gradient = gradient,
                                .ranges = ranges_of_table<LossAttributes>,
                                .reads_stored = reads_table<&kLinearCrossEntropy, LossAttributes>,
                                .narrow = inputs_at<0>,
                                .either = inputs_at<1>,
                                .costly = true,
                                .chunked = true};
const OpDef kLinearCrossEntropyBackward{.name = "linear_cross_entropy_backward",
                                        .infer = infer_backward,
                                        .cost = cost_of_backward,
                                        .not_differentiable = kFirstOrderOnly,
                                        .aliases = aliases_of_backward,
                                        .ranges = ranges_of_backward,
                                        .narrow = inputs_at<0>,
                                        .either = inputs_at<1>,
                                        .costly = true,
                                        .chunked = true};

// A GPU needs the whole table in memory, in addition to the tile of logits.
OpList loss_ops() {
  const GpuNeeds needs{.scratch = cuda_loss_scratch, .cublas = true, .whole = true};
  return {{&kLinearCrossEntropy, needs}, {&kLinearCrossEntropyBackward, needs}};
}

ValueId linear_cross_entropy(GraphBuilder& builder, ValueId h, ValueId w, ValueId targets, ValueId inverse_units,
                             const LossAttributes& attributes) {
  LossAttributes all = attributes;
  all.blocks = builder.blocks_of(w);
  return builder.add1(kLinearCrossEntropy, all, {h, w, targets, inverse_units}, "losses");
}

}  // namespace plimsoll::ops
