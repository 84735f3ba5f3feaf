#include <algorithm>

#include "base/ceil_div.h"
#include "ops/families.h"
#include "ops/rules.h"
#include "ops/update/cuda.h"
#include "ops/update/update.h"

namespace plimsoll::ops {
namespace {

const ValueType kSum{DType::f64, Shape{1}};
const ValueType kCoefficient{DType::f32, Shape{1}};
const ValueType kChange{DType::f64, Shape{2}};
const ValueType kScalars{DType::f64, Shape{kUpdateScalars}};

std::vector<ValueType> infer_sum(const Attributes&, TypeSpan inputs) {
  require_inputs(inputs, 1, "sum_of_squares");
  const DType dtype = inputs[0].dtype;
  require(dtype == DType::f32 || dtype == DType::bf16, "sum_of_squares", "the input is " + to_text(inputs[0]), "fp32 or bf16");
  return {kSum};
}

std::vector<ValueType> infer_clip(const Attributes& any, TypeSpan inputs) {
  const auto& attributes = any.as<ClipAttributes>();
  require(!attributes.scaled || !inputs.empty(), "clip", "got no inputs", "the scalars");
  const ClipOperands at = ClipOperands::of(attributes, inputs.size());
  if (attributes.scaled) require_type(inputs[at.scalars()], kScalars, "clip", "the scalars");
  for (const ValueType& sum : inputs.first(at.sums)) require_type(sum, kSum, "clip", "a sum of squares");
  std::vector<ValueType> outputs(at.outputs);
  outputs[at.norm] = kSum;
  outputs[at.coefficient] = kCoefficient;
  return outputs;
}

Cost cost_of_few(const Attributes&, TypeSpan inputs, TypeSpan outputs) {
  return {static_cast<double>(inputs.size()), bytes_touched(inputs, outputs)};
}

// States are all fp32, all bf16 or all coded. The parameter and its gradient are each fp32 or bf16.
template <class A>
std::vector<ValueType> infer_update(const Attributes& any, TypeSpan inputs) {
  constexpr const char *kWhere = "an update", *kElements = "an operand of the parameter's shape";
  const UpdateOperands at = any.as<A>().operands();
  require_inputs(inputs, at.inputs(), kWhere);
  const Shape& shape = inputs[at.parameter()].shape;
  for (const std::size_t each : {at.parameter(), at.gradient()}) {
    const bool narrow = inputs[each].dtype == DType::bf16;
    require_type(inputs[each], {narrow ? DType::bf16 : DType::f32, shape}, kWhere,
                 narrow ? "the parameter, or its gradient," : kElements);
  }
  const bool narrow = at.states() > 0 && inputs[at.state(0)].dtype == DType::bf16;
  const ValueType state{at.coded() ? DType::u8 : narrow ? DType::bf16 : DType::f32, shape};
  const ValueType scales{DType::f32, Shape{ceil_div(shape.elements(), kCodedBlock)}};
  for (std::size_t i = 0; i < at.states(); ++i) {
    require_type(inputs[at.state(i)], state, kWhere, kElements);
    if (at.coded()) require_type(inputs[at.scales(i)], scales, kWhere, kElements);
  }
  if (at.averaged()) require_type(inputs[at.average()], {DType::f32, shape}, kWhere, kElements);
  require_type(inputs[at.scalars()], kScalars, kWhere, "the scalars");
  if (at.clipped()) require_type(inputs[at.coefficient()], kCoefficient, kWhere, "the clip coefficient");
  std::vector<ValueType> outputs(at.outputs());
  std::ranges::copy(inputs.first(at.changed()), outputs.begin());
  outputs[at.change()] = kChange;
  return outputs;
}

std::vector<ValueType> infer_report(const Attributes&, TypeSpan inputs) {
  std::int64_t elements = 0;
  for (const ValueType& input : inputs) {
    require(input.dtype == DType::f64, "report", "an input is " + to_text(input), "fp64");
    elements += input.shape.elements();
  }
  return {{DType::f64, Shape{elements}}};
}

template <class A>
std::vector<Alias> aliases_of_update(const Attributes& any) {
  std::vector<Alias> aliases;
  for (std::size_t i = 0; i < any.as<A>().operands().changed(); ++i) aliases.push_back({i, i, AliasKind::updates});
  return aliases;
}

RangeRule ranges_of_sum(const Attributes&, TypeSpan) { return {kNormTile, {0}}; }

// Ranges of the parameter, its states and the gradient, but not of scales. A range begins with a tile of the kernels' sums, and
// thus also with a block of coded states and a group of noise.
template <class A>
RangeRule ranges_of_update(const Attributes& any, TypeSpan) {
  static_assert(kNormTile % kCodedBlock == 0);
  const UpdateOperands at = any.as<A>().operands();
  RangeRule rule{.step = kNormTile, .inputs = {at.parameter()}};
  for (std::size_t i = 0; i < at.states(); ++i) rule.inputs.push_back(at.state(i));
  if (at.averaged()) rule.inputs.push_back(at.average());
  rule.inputs.push_back(at.gradient());
  return rule;
}

template <class A>
ShardRule shard_of_update(const Attributes& any, std::int64_t first) {
  A attributes = any.as<A>();
  const UpdateOperands at = attributes.operands();
  if (first > 0 && attributes.rounding != NoiseKey{}) attributes.first = first;
  ShardRule rule{attributes, {{at.parameter()}, {at.gradient()}}};
  for (std::size_t i = 0; i < at.states(); ++i) {
    rule.cut.push_back({at.state(i)});
    if (at.coded()) rule.cut.push_back({at.scales(i), kCodedBlock});
  }
  if (at.averaged()) rule.cut.push_back({at.average()});
  return rule;
}

template <class A, int kFlops>
constexpr OpDef update_op(const char* name) {
  return {.name = name,
          .infer = infer_update<A>,
          .cost = cost_per_element<kFlops>,
          .not_differentiable = kUpdateOnly,
          .aliases = aliases_of_update<A>,
          .ranges = ranges_of_update<A>,
          .sharded = shard_of_update<A>};
}

}  // namespace

const OpDef kSumOfSquares{.name = "sum_of_squares",
                          .infer = infer_sum,
                          .cost = cost_per_element<2>,
                          .not_differentiable = kUpdateOnly,
                          .ranges = ranges_of_sum};
const OpDef kReport{.name = "report", .infer = infer_report, .cost = cost_of_few, .not_differentiable = kUpdateOnly};
const OpDef kClip{.name = "clip", .infer = infer_clip, .cost = cost_of_few, .not_differentiable = kUpdateOnly};
constinit const OpDef kAdamW = update_op<AdamWAttributes, 15>("adamw");
constinit const OpDef kLion = update_op<LionAttributes, 9>("lion");
constinit const OpDef kSgd = update_op<SgdAttributes, 6>("sgd");

OpList update_ops() {
  return {{&kSumOfSquares, {.scratch = cuda_sum_of_squares_scratch}},
          {&kClip},
          {&kReport},
          {&kAdamW, {.scratch = cuda_update_scratch}},
          {&kLion, {.scratch = cuda_update_scratch}},
          {&kSgd, {.scratch = cuda_update_scratch}}};
}

}  // namespace plimsoll::ops
