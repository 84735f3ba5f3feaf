#include <algorithm>

#include "ops/attributes.h"
#include "ops/check.h"
#include "ops/factored/cuda.h"
#include "ops/factored/factored.h"
#include "ops/families.h"
#include "ops/update/update.h"

namespace plimsoll::ops {
namespace {

const ValueType kSizes{DType::f64, Shape{2}}, kChange{DType::f64, Shape{2}};
const ValueType kCoefficient{DType::f32, Shape{1}};
const ValueType kScalars{DType::f64, Shape{kUpdateScalars}};

const FactoredAttributes& of(const Attributes& any) { return any.as<FactoredAttributes>(); }

// The types of all operands except the sizes.
void check_operands(const FactoredAttributes& a, const FactoredOperands& at, TypeSpan inputs, const char* where) {
  require_inputs(inputs, at.inputs, where);
  const ValueType& gradient = inputs[at.gradient];
  require(gradient.dtype == DType::f32 || gradient.dtype == DType::bf16, where, "the gradient is " + to_text(gradient),
          "fp32 or bf16");
  if (a.factored) {
    require(gradient.shape.rank() >= 2, where, "the gradient is " + to_text(gradient), "two or more axes");
    require_type(inputs[at.rows()], {DType::f32, Shape{rows_of(gradient.shape)}}, where, "the variance of the rows");
    require_type(inputs[at.columns()], {DType::f32, Shape{gradient.shape.last()}}, where, "the variance of the columns");
  } else {
    require_type(inputs[at.state(0)], {DType::f32, gradient.shape}, where, "the variance");
  }
  if (at.parameter != at.kAbsent) {
    const DType dtype = inputs[at.parameter].dtype == DType::bf16 ? DType::bf16 : DType::f32;
    require_type(inputs[at.parameter], {dtype, gradient.shape}, where, "the parameter");
  }
  if (at.average != at.kAbsent) require_type(inputs[at.average], {DType::f32, gradient.shape}, where, "the average");
  if (at.scalars != at.kAbsent) require_type(inputs[at.scalars], kScalars, where, "the scalars");
  if (at.coefficient != at.kAbsent) require_type(inputs[at.coefficient], kCoefficient, where, "the clip coefficient");
}

std::vector<ValueType> changed_of(const FactoredOperands& at, TypeSpan inputs) {
  const TypeSpan changed = inputs.first(at.changed);
  return {changed.begin(), changed.end()};
}

std::vector<ValueType> infer_variance(const Attributes& any, TypeSpan inputs) {
  const FactoredOperands at = FactoredOperands::of_variance(of(any));
  check_operands(of(any), at, inputs, "update_variance");
  return changed_of(at, inputs);
}

std::vector<ValueType> infer_size(const Attributes& any, TypeSpan inputs) {
  check_operands(of(any), FactoredOperands::of_size(of(any)), inputs, "update_size");
  return {kSizes};
}

std::vector<ValueType> infer_update(const Attributes& any, TypeSpan inputs) {
  const FactoredOperands at = FactoredOperands::of_update(of(any));
  check_operands(of(any), at, inputs, "adafactor");
  require_type(inputs[at.sizes], kSizes, "adafactor", "the sums of squares");
  std::vector<ValueType> outputs = changed_of(at, inputs);
  outputs.push_back(kChange);
  return outputs;
}

std::vector<Alias> updates_first(const FactoredOperands& at) {
  std::vector<Alias> aliases;
  for (std::size_t i = 0; i < at.changed; ++i) aliases.push_back({i, i, AliasKind::updates});
  return aliases;
}
std::vector<Alias> aliases_of_variance(const Attributes& any) { return updates_first(FactoredOperands::of_variance(of(any))); }
std::vector<Alias> aliases_of_update(const Attributes& any) { return updates_first(FactoredOperands::of_update(of(any))); }

// Ranges of all operands of the parameter's shape. Sums run in tiles of kNormTile.
RangeRule ranges_from(const FactoredAttributes& a, const FactoredOperands& at) {
  RangeRule rule{.step = kNormTile};
  for (const std::size_t each : {at.parameter, at.average, a.factored ? at.kAbsent : at.state(0), at.gradient}) {
    if (each != at.kAbsent) rule.inputs.push_back(each);
  }
  return rule;
}
RangeRule ranges_of_variance(const Attributes& any, TypeSpan) {
  return ranges_from(of(any), FactoredOperands::of_variance(of(any)));
}
RangeRule ranges_of_size(const Attributes& any, TypeSpan) { return ranges_from(of(any), FactoredOperands::of_size(of(any))); }
RangeRule ranges_of_update(const Attributes& any, TypeSpan) { return ranges_from(of(any), FactoredOperands::of_update(of(any))); }

template <int kFlops>
Cost cost(const Attributes&, TypeSpan inputs, TypeSpan outputs) {
  double elements = 0;
  for (const ValueType& input : inputs) elements = std::max(elements, static_cast<double>(input.shape.elements()));
  return {kFlops * elements, bytes_touched(inputs, outputs)};
}

}  // namespace

const OpDef kUpdateVariance{.name = "update_variance",
                            .infer = infer_variance,
                            .cost = cost<4>,
                            .not_differentiable = kUpdateOnly,
                            .aliases = aliases_of_variance,
                            .ranges = ranges_of_variance};
const OpDef kUpdateSize{
    .name = "update_size", .infer = infer_size, .cost = cost<5>, .not_differentiable = kUpdateOnly, .ranges = ranges_of_size};
const OpDef kAdafactor{.name = "adafactor",
                       .infer = infer_update,
                       .cost = cost<7>,
                       .not_differentiable = kUpdateOnly,
                       .aliases = aliases_of_update,
                       .ranges = ranges_of_update};

OpList factored_ops() {
  return {{&kUpdateVariance, {.scratch = cuda_update_variance_scratch}},
          {&kUpdateSize, {.scratch = cuda_update_size_scratch}},
          {&kAdafactor, {.scratch = cuda_adafactor_scratch}}};
}

}  // namespace plimsoll::ops
