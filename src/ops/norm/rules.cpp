#include <fmt/core.h>

#include <array>

#include "ops/families.h"
#include "ops/norm/cuda.h"
#include "ops/norm/norm.h"
#include "ops/reduce/reduce.h"
#include "ops/rules.h"

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
  require_computable(output, "layer_norm", "the output");
  return {{output, x}, row, row};
}

void gradient(GradientContext& context) {
  GraphBuilder& builder = context.builder();
  const std::array wants{context.wants(0), context.wants(1), context.wants(2)};
  // The gradient of beta alone is a sum of rows, which does not need x.
  if (wants[2] && !wants[0] && !wants[1]) return context.contribute(2, kSumRows, AccumulateAttributes{}, {context.gradient(0)});
  constexpr std::array kNames{"grad", "weight.grad", "bias.grad"};
  std::vector<std::size_t> made;
  std::vector<ValueId> into;
  std::vector<std::string> names;
  for (const std::size_t i : {0, 1, 2}) {
    if (!wants[i]) continue;
    made.push_back(i);
    names.emplace_back(kNames[i]);
    if (i > 0) into.push_back(context.accumulator(i));
  }
  if (made.empty()) return;
  const bool accumulate = serves_all(builder, into);
  std::vector<ValueId> inputs{context.gradient(0), context.input(0), context.output(1), context.output(2), context.input(1)};
  if (accumulate) inputs.insert(inputs.end(), into.begin(), into.end());
  const LayerNormBackwardAttributes attributes{accumulate, wants[0], wants[1], wants[2]};
  const auto outputs = builder.add(kLayerNormBackward, attributes, std::move(inputs), std::move(names));
  for (std::size_t i = 0; i < made.size(); ++i) context.contribute(made[i], outputs[i]);
}

std::vector<ValueType> infer_backward(const Attributes& any, TypeSpan inputs) {
  const auto& a = any.as<LayerNormBackwardAttributes>();
  constexpr const char* kWhere = "layer_norm_backward";
  require(a.x || a.gamma, kWhere, "neither the gradient of x nor that of gamma is requested",
          "one of them; that of beta alone is a sum of rows");
  const auto sums = static_cast<std::size_t>(a.sums());
  require_inputs(inputs, a.accumulate ? 5 + sums : 5, kWhere);
  require_dtype(inputs, DType::f32, kWhere);
  require_same(inputs[0], inputs[1], kWhere);
  const Shape& x = inputs[1].shape;
  require(x.rank() >= 1, kWhere, "x is a scalar", "it needs an axis to normalise");
  const ValueType row{DType::f32, Shape{rows_of(x)}}, weight{DType::f32, Shape{x.last()}};
  require_type(inputs[2], row, kWhere, "mean");
  require_type(inputs[3], row, kWhere, "rstd");
  require_type(inputs[4], weight, kWhere, "gamma");
  for (std::size_t i = 5; i < inputs.size(); ++i) require_type(inputs[i], weight, kWhere, "an accumulator");
  std::vector<ValueType> outputs(sums, inputs[4]);
  if (a.x) outputs.insert(outputs.begin(), inputs[1]);
  return outputs;
}

std::vector<Alias> aliases_of_backward(const Attributes& any) {
  const auto& a = any.as<LayerNormBackwardAttributes>();
  std::vector<Alias> aliases;
  if (a.x) aliases.push_back({0, 0, AliasKind::may_overwrite});
  if (!a.accumulate) return aliases;
  if (a.gamma) aliases.push_back({5, a.of_gamma(), AliasKind::accumulates});
  if (a.beta) aliases.push_back({a.gamma ? std::size_t{6} : std::size_t{5}, a.of_beta(), AliasKind::accumulates});
  return aliases;
}

}  // namespace

const OpDef kLayerNorm{.name = "layer_norm",
                       .infer = infer,
                       .cost = cost_per_element<8>,
                       .gradient = gradient,
                       .rounded = with_output<LayerNormAttributes>};
const OpDef kLayerNormBackward{.name = "layer_norm_backward",
                               .infer = infer_backward,
                               .cost = cost_per_element<8>,
                               .not_differentiable = kFirstOrderOnly,
                               .aliases = aliases_of_backward};

OpList norm_ops() { return {{&kLayerNorm}, {&kLayerNormBackward, {.scratch = cuda_layer_norm_scratch}}}; }

ValueId layer_norm(GraphBuilder& builder, ValueId x, ValueId gamma, ValueId beta, double epsilon) {
  return builder.add(kLayerNorm, LayerNormAttributes{epsilon}, {x, gamma, beta}, {"", "mean", "rstd"}).front();
}

}  // namespace plimsoll::ops
