#include <fmt/format.h>

#include "graph/gradient.h"
#include "ops/check.h"
#include "ops/families.h"
#include "ops/norm/cuda.h"
#include "ops/norm/norm.h"

namespace plimsoll::ops {
namespace {

std::vector<ValueType> infer(const Attributes& any, TypeSpan inputs) {
  require_inputs(inputs, 3, "layer_norm");
  const Shape& x = inputs[0].shape;
  require_dtype(inputs, DType::f32, "layer_norm");
  require(x.rank() >= 1, "layer_norm", "x is a scalar", "it needs an axis to normalise");
  for (const std::size_t i : {1, 2}) {
    require(
        inputs[i].shape == Shape{x.last()}, "layer_norm",
        fmt::format("weight has {} elements but the last axis of x {} has {}", inputs[i].shape.elements(), to_text(x), x.last()),
        fmt::format("pass a weight of shape ({})", x.last()));
  }
  const ValueType row{DType::f32, Shape{rows_of(x)}};
  const DType output = any.as<LayerNormAttributes>().output;
  require(is_float(output) && output != DType::f64, "layer_norm", fmt::format("the output is {}", name(output)),
          "fp32, bf16 or fp16");
  return {{output, x}, row, row};
}

Attributes rounded(const Attributes& any, DType to) { return LayerNormAttributes{any.as<LayerNormAttributes>().epsilon, to}; }

Cost cost(const Attributes&, TypeSpan inputs, TypeSpan outputs) {
  return {8.0 * static_cast<double>(inputs[0].shape.elements()), bytes_touched(inputs, outputs)};
}

// Whether one call can add to both accumulators: it either writes both or adds to both, so both have been added to in this window
// or none has.
bool same_state(const GraphBuilder& builder, ValueId a, ValueId b) {
  if (!a.valid() || !b.valid() || a == b) return false;
  return builder.value(a).version_of.valid() == builder.value(b).version_of.valid();
}

void gradient(GradientContext& context) {
  GraphBuilder& builder = context.builder();
  const ValueId into_gamma = context.accumulator(1), into_beta = context.accumulator(2);
  const bool accumulate = same_state(builder, into_gamma, into_beta);
  std::vector<ValueId> inputs{context.gradient(0), context.input(0), context.output(1), context.output(2), context.input(1)};
  if (accumulate) inputs.insert(inputs.end(), {into_gamma, into_beta});
  const auto outputs =
      builder.add(kLayerNormBackward, AccumulateAttributes{accumulate}, std::move(inputs), {"grad", "weight.grad", "bias.grad"});
  for (const std::size_t i : {0, 1, 2}) {
    if (context.wants(i)) context.contribute(i, outputs[i]);
  }
}

std::vector<ValueType> infer_backward(const Attributes& any, TypeSpan inputs) {
  const bool accumulate = any.as<AccumulateAttributes>().accumulate;
  require_inputs(inputs, accumulate ? 7 : 5, "layer_norm_backward");
  constexpr const char* kWhere = "layer_norm_backward";
  require_dtype(inputs, DType::f32, kWhere);
  require_same(inputs[0], inputs[1], kWhere);
  const Shape& x = inputs[1].shape;
  require(x.rank() >= 1, kWhere, "x is a scalar", "it needs an axis to normalise");
  const ValueType row{DType::f32, Shape{rows_of(x)}}, weight{DType::f32, Shape{x.last()}};
  require_type(inputs[2], row, kWhere, "mean");
  require_type(inputs[3], row, kWhere, "rstd");
  require_type(inputs[4], weight, kWhere, "gamma");
  for (std::size_t i = 5; i < inputs.size(); ++i) require_type(inputs[i], weight, kWhere, "an accumulator");
  return {inputs[1], inputs[4], inputs[4]};
}

std::vector<Alias> aliases_of_backward(const Attributes& any) {
  std::vector<Alias> aliases{{0, 0, AliasKind::may_overwrite}};
  if (any.as<AccumulateAttributes>().accumulate) {
    aliases.push_back({5, 1, AliasKind::updates});
    aliases.push_back({6, 2, AliasKind::updates});
  }
  return aliases;
}

}  // namespace

const OpDef kLayerNorm{.name = "layer_norm", .infer = infer, .cost = cost, .gradient = gradient, .rounded = rounded};
const OpDef kLayerNormBackward{.name = "layer_norm_backward",
                               .infer = infer_backward,
                               .cost = cost,
                               .not_differentiable = kFirstOrderOnly,
                               .aliases = aliases_of_backward};

OpList norm_ops() { return {{&kLayerNorm}, {&kLayerNormBackward, {cuda_layer_norm_scratch}}}; }

ValueId layer_norm(GraphBuilder& builder, ValueId x, ValueId gamma, ValueId beta, double epsilon) {
  return builder.add(kLayerNorm, LayerNormAttributes{epsilon}, {x, gamma, beta}, {"", "mean", "rstd"}).front();
}

}  // namespace plimsoll::ops
