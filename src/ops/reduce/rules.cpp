#include <fmt/core.h>

#include "ops/families.h"
#include "ops/reduce/cuda.h"
#include "ops/reduce/reduce.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

std::vector<ValueType> infer_reduce(const Attributes&, TypeSpan inputs) {
  require_inputs(inputs, 1, "reduce");
  require_dtype(inputs, DType::f32, "reduce");
  require(inputs[0].shape.rank() >= 1, "reduce", "the input is a scalar", "it needs an axis to reduce");
  Shape shape = inputs[0].shape;
  shape.pop_back();
  return {{DType::f32, shape}};
}

void gradient_of_reduce(GradientContext& context) {
  const std::int64_t extent = context.builder().shape(context.input(0)).last();
  const bool mean = context.node().attributes.as<ReduceAttributes>().mean;
  const BroadcastLastAttributes attributes{extent, mean ? 1.0 / static_cast<double>(extent) : 1.0};
  context.contribute_if_wanted(0, kBroadcastLast, attributes, {context.gradient(0)});
}

std::vector<ValueType> infer_broadcast(const Attributes& any, TypeSpan inputs) {
  require_inputs(inputs, 1, "broadcast_last");
  require_dtype(inputs, DType::f32, "broadcast_last");
  Shape shape = inputs[0].shape;
  shape.push_back(any.as<BroadcastLastAttributes>().extent);
  return {{DType::f32, shape}};
}

void gradient_of_broadcast(GradientContext& context) {
  if (!context.wants(0)) return;
  GraphBuilder& builder = context.builder();
  const double factor = context.node().attributes.as<BroadcastLastAttributes>().factor;
  require(factor == 1.0, "broadcast_last", fmt::format("the factor is {}", factor), "only the gradient of factor 1 is built");
  context.contribute(0, builder.add1(kReduce, ReduceAttributes{}, {context.gradient(0)}, "grad"));
}

std::vector<ValueType> infer_sum_rows(const Attributes& any, TypeSpan inputs) {
  const bool accumulate = any.as<AccumulateAttributes>().accumulate;
  require_inputs(inputs, accumulate ? 2 : 1, "sum_rows");
  require_computable(inputs[0], "sum_rows");
  require(inputs[0].shape.rank() >= 1, "sum_rows", "the input is a scalar", "it needs an axis");
  const ValueType output{DType::f32, Shape{inputs[0].shape.last()}};
  if (accumulate) require_type(inputs[1], output, "sum_rows", "the accumulator");
  return {output};
}

std::vector<ValueType> infer_sum_losses(const Attributes&, TypeSpan inputs) {
  require_inputs(inputs, 2, "sum_losses");
  require_dtype(inputs.first(1), DType::f32, "sum_losses");
  require_type(inputs[1], {DType::f64, Shape{1}}, "sum_losses", "the total");
  return {inputs[1]};
}

std::vector<ValueType> infer_count_small(const Attributes&, TypeSpan inputs) {
  require_inputs(inputs, 2, "count_small");
  require_dtype(inputs.first(1), DType::f16, "count_small");
  require_type(inputs[1], {DType::f64, Shape{kCounts}}, "count_small", "the counts");
  return {inputs[1]};
}

}  // namespace

const OpDef kReduce{.name = "reduce", .infer = infer_reduce, .cost = cost_per_element<1>, .gradient = gradient_of_reduce};
const OpDef kBroadcastLast{
    .name = "broadcast_last", .infer = infer_broadcast, .cost = cost_per_element<1>, .gradient = gradient_of_broadcast};
const OpDef kSumRows{.name = "sum_rows",
                     .infer = infer_sum_rows,
                     .cost = cost_per_element<1>,
                     .not_differentiable = kFirstOrderOnly,
                     .aliases = accumulates_if<AccumulateAttributes, 1>,
                     .either = inputs_at<0>};
const OpDef kSumLosses{.name = "sum_losses",
                       .infer = infer_sum_losses,
                       .cost = cost_per_element<1>,
                       .not_differentiable = "it reports the loss; gradients start at the loss itself",
                       .aliases = accumulates_into<1>};
const OpDef kCountSmall{.name = "count_small",
                        .infer = infer_count_small,
                        .cost = cost_per_element<1>,
                        .not_differentiable = kFirstOrderOnly,
                        .aliases = accumulates_into<1>};

OpList reduce_ops() {
  return {{&kReduce},
          {&kBroadcastLast},
          {&kSumRows, {.scratch = cuda_sum_rows_scratch}},
          {&kSumLosses},
          {&kCountSmall, {.scratch = cuda_count_small_scratch}}};
}

}  // namespace plimsoll::ops
