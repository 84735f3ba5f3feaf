#include "ops/check.h"
#include "ops/update/update.h"

namespace plimsoll::ops {
namespace {

const ValueType kSum{DType::f64, Shape{1}};
const ValueType kCoefficient{DType::f32, Shape{1}};
const ValueType kScalars{DType::f64, Shape{kUpdateScalars}};

std::vector<ValueType> infer_sum(const Attributes&, TypeSpan inputs) {
  require_inputs(inputs, 1, "sum_of_squares");
  require_dtype(inputs, DType::f32, "sum_of_squares");
  return {kSum};
}

Cost cost_of_sum(const Attributes&, TypeSpan inputs, TypeSpan outputs) {
  return {2.0 * static_cast<double>(inputs[0].shape.elements()), bytes_touched(inputs, outputs)};
}

std::vector<ValueType> infer_clip(const Attributes&, TypeSpan inputs) {
  for (const ValueType& input : inputs) require_type(input, kSum, "clip", "a sum of squares");
  return {kSum, kCoefficient};
}

Cost cost_of_clip(const Attributes&, TypeSpan inputs, TypeSpan outputs) {
  return {static_cast<double>(inputs.size()), bytes_touched(inputs, outputs)};
}

// The first `states` inputs are the parameter and its states, then come the gradient, the scalars and, with clipping, the clip
// coefficient.
template <class A>
std::vector<ValueType> infer_update(TypeSpan inputs, std::size_t states, const A& attributes, const char* where) {
  require_inputs(inputs, states + (attributes.clipped ? 3 : 2), where);
  require_dtype(inputs.first(states + 1), DType::f32, where);
  for (std::size_t i = 1; i <= states; ++i) require_same(inputs[0], inputs[i], where);
  require_type(inputs[states + 1], kScalars, where, "the scalars");
  if (attributes.clipped) require_type(inputs[states + 2], kCoefficient, where, "the clip coefficient");
  return {inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(states)};
}

std::vector<ValueType> infer_adamw(const Attributes& any, TypeSpan inputs) {
  return infer_update(inputs, 3, any.as<AdamWAttributes>(), "adamw");
}

std::vector<ValueType> infer_lion(const Attributes& any, TypeSpan inputs) {
  return infer_update(inputs, 2, any.as<LionAttributes>(), "lion");
}

std::vector<ValueType> infer_sgd(const Attributes& any, TypeSpan inputs) {
  const auto& attributes = any.as<SgdAttributes>();
  return infer_update(inputs, attributes.momentum ? 2 : 1, attributes, "sgd");
}

std::vector<Alias> aliases_of_sgd(const Attributes& any) {
  if (any.as<SgdAttributes>().momentum) return {{0, 0, AliasKind::updates}, {1, 1, AliasKind::updates}};
  return {{0, 0, AliasKind::updates}};
}

std::vector<Alias> aliases_of_lion(const Attributes&) { return {{0, 0, AliasKind::updates}, {1, 1, AliasKind::updates}}; }

std::vector<Alias> aliases_of_adamw(const Attributes&) {
  return {{0, 0, AliasKind::updates}, {1, 1, AliasKind::updates}, {2, 2, AliasKind::updates}};
}

RangeRule ranges_of_sum(const Attributes&, TypeSpan) { return {kNormTile, {0}}; }

// The parameter, its states and the gradient.
RangeRule ranges_of_update(const Attributes&, TypeSpan inputs) {
  RangeRule rule;
  for (std::size_t i = 0; i < inputs.size() && inputs[i] == inputs[0]; ++i) rule.inputs.push_back(i);
  return rule;
}

template <int kFlops>
Cost cost_of_update(const Attributes&, TypeSpan inputs, TypeSpan outputs) {
  return {kFlops * static_cast<double>(inputs[0].shape.elements()), bytes_touched(inputs, outputs)};
}

}  // namespace

const OpDef kSumOfSquares{.name = "sum_of_squares",
                          .infer = infer_sum,
                          .cost = cost_of_sum,
                          .not_differentiable = kUpdateOnly,
                          .ranges = ranges_of_sum};
const OpDef kClip{.name = "clip", .infer = infer_clip, .cost = cost_of_clip, .not_differentiable = kUpdateOnly};
const OpDef kAdamW{.name = "adamw",
                   .infer = infer_adamw,
                   .cost = cost_of_update<15>,
                   .not_differentiable = kUpdateOnly,
                   .aliases = aliases_of_adamw,
                   .ranges = ranges_of_update};
const OpDef kLion{.name = "lion",
                  .infer = infer_lion,
                  .cost = cost_of_update<9>,
                  .not_differentiable = kUpdateOnly,
                  .aliases = aliases_of_lion,
                  .ranges = ranges_of_update};
const OpDef kSgd{.name = "sgd",
                 .infer = infer_sgd,
                 .cost = cost_of_update<6>,
                 .not_differentiable = kUpdateOnly,
                 .aliases = aliases_of_sgd,
                 .ranges = ranges_of_update};

}  // namespace plimsoll::ops
